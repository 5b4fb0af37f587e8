"""What ``import probi`` loads and offers, each in a fresh process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import probi
from probi import _lazy
from probi.cli.app import COMMANDS

pytestmark = pytest.mark.process

# Numba is not optional, but loaded when the first kernel is called.
OPTIONAL = (
    "sklearn", "scipy", "pyarrow", "matplotlib", "dask", "distributed", "pyspark", "pandas", "jinja2", "typer", "rich",
    "numba", "xarray", "zarr", "h5netcdf", "h5py", "cfgrib", "eccodes", "cftime", "arviz", "geopandas", "astropy",
    "fsspec", "aiohttp",
)  # fmt: skip


def in_a_fresh_process(code):
    """What a script prints as JSON."""
    environment = os.environ | {"PYTHONPATH": str(Path(probi.__file__).resolve().parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


LOADED = """
import json, sys
import {first}
before = set(sys.modules)
import {then}
print(json.dumps([sorted(sys.modules), sorted(set(sys.modules) - before)]))
"""


def test_nothing_optional_is_loaded():
    loaded, by_probi = in_a_fresh_process(LOADED.format(first="numpy", then="probi.summary.window, probi.solver.solve"))
    assert {"probi.nodes", "probi.summary", "probi._kernels.medians"} <= set(by_probi)
    assert [name for name in loaded if name.split(".")[0] in OPTIONAL] == []


def test_import_waits_for_no_name_that_is_not_used():
    loaded, by_probi = in_a_fresh_process(LOADED.format(first="json", then="probi"))
    assert [name for name in by_probi if name.startswith("probi")] == ["probi", "probi._lazy"]
    assert [name for name in loaded if name.split(".")[0] in (*OPTIONAL, "numpy")] == []


def test_that_would_be_seen():
    # The same look at a module that does load an optional one.
    loaded, _ = in_a_fresh_process(LOADED.format(first="numpy", then="rich"))
    assert any(name.split(".")[0] in OPTIONAL for name in loaded)


def test_public_names_and_modules_exist_are_listed_and_come_with_a_star():
    code = """
import json
import probi
listed = dir(probi)
modules = [probi.geo.to_sphere.__name__, probi.io.read.__name__, probi.report.write_report.__name__,
           probi.engines.NAMES[0]]  # without an import of their own
from probi import *
missing = [name for name in probi.__all__ if name not in globals() or not hasattr(probi, name)]
print(json.dumps([probi.__all__, listed, missing, [Nodes.__name__, solve.__name__, PLloyd.__name__], modules]))
"""
    names, listed, missing, starred, modules = in_a_fresh_process(code)
    assert missing == []
    assert starred == ["Nodes", "solve", "PLloyd"]
    assert len(set(names)) == len(names) > 0
    assert set(names) | {"engines", "geo", "io", "report", "__version__"} <= set(listed)
    assert modules == ["to_sphere", "read", "write_report", "dask"]


def test_help_and_completion_survive_a_missing_extra(monkeypatch):
    error = probi.MissingExtraError("probi.report needs matplotlib: pip install matplotlib")

    def missing(name):
        raise error

    monkeypatch.setattr(_lazy, "import_module", missing)
    monkeypatch.delitem(vars(probi), "report", raising=False)
    with pytest.raises(AttributeError, match="needs matplotlib: pip install"):
        _ = probi.report


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(probi, "no_such_name")


# -- commands ---------------------------------------------------------------------------------------------------------

RUN = """
import json, os, sys
from probi.cli import app
sys.argv = ["probi", *{arguments!r}]
sys.stdout = open(os.devnull, "w", encoding="utf-8")
assert app.main() == 0
sys.__stdout__.write(json.dumps(sorted(sys.modules)))
"""


def loaded_by(*arguments):
    return set(in_a_fresh_process(RUN.format(arguments=list(map(str, arguments)))))


def commands_in(loaded):
    """The commands whose modules were loaded."""
    return {name.removeprefix("probi.cli.commands.") for name in loaded if name.startswith("probi.cli.commands.")}


@pytest.fixture
def points(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text("x,y\n" + "".join(f"{i},{i * i % 7}\n" for i in range(20)), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("arguments", "commands"),
    [
        (("--help",), set(COMMANDS)),
        (("--version",), None),
        (("info", "--help"), {"info"}),
        (("demo", "--help"), {"cluster", "demo"}),
    ],
)
def test_help_loads_nothing_that_works_nor_other_commands(arguments, commands):
    loaded = loaded_by(*arguments)
    assert "typer" in loaded
    assert loaded & {"numpy", "numba", "pyarrow", "matplotlib", "sklearn", "scipy", "pandas", "jinja2", "dask"} == set()
    assert commands in (None, commands_in(loaded))


def test_cluster_loads_what_it_uses(points):
    loaded = loaded_by("cluster", points, "-k", 2)
    assert {"numba", "pyarrow"} <= loaded
    assert loaded & {"matplotlib", "jinja2", "pandas", "scipy", "sklearn", "dask", "distributed", "pyspark"} == set()
    assert loaded & {"coverage", "probi.cli.workers", "probi.engines.tasks"} == set()
    assert loaded & {"pyarrow.compute", "pyarrow.parquet", "rich"} == set()
    assert commands_in(loaded) == {"cluster"}


def test_a_folder_of_results_is_written_without_matplotlib_and_pandas(points, tmp_path):
    loaded = loaded_by("cluster", points, "-k", 2, "-o", tmp_path / "out")
    assert "</html>" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "jinja2" in loaded
    assert loaded & {"matplotlib", "pandas", "scipy", "sklearn"} == set()
