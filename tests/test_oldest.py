"""Constraints for `make oldest`: every dependency in its oldest version, and none left to chance."""

import tomllib
from pathlib import Path

import oldest
import pytest

PROJECT = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text("utf-8"))["project"]


def project(dependencies, **extras):
    return {"name": "probi", "dependencies": dependencies, "optional-dependencies": extras}


def test_bounds_become_versions_in_order():
    given = project(
        ["zict>=3"], dask=["dask[dataframe]>=2025.4", "a.b-c_d>=1.0.2,<1.1"], all=["probi[dask]", "zict>=3"]
    )
    assert oldest.constraints(given) == ["a.b-c_d==1.0.2", "dask==2025.4", "zict==3"]


@pytest.mark.parametrize("line", ["numpy", "numpy==2.0", "numpy>2", "numpy<3", "numpy<3,>=2"])
def test_a_dependency_without_an_oldest_version_is_an_error(line):
    with pytest.raises(SystemExit, match="does not say which version is the oldest"):
        oldest.constraints(project([], test=[line]))


def test_two_oldest_versions_are_an_error():
    with pytest.raises(SystemExit, match="pandas has two oldest versions"):
        oldest.constraints(project([], docs=["pandas>=2.2"], test=["pandas>=2.3"]))


def test_what_pyproject_says_can_be_constrained():
    names = [line.partition("==")[0] for line in oldest.constraints(PROJECT)]
    assert names == sorted(set(names))
    assert {"numpy", "dask", "pyspark", "pandas", "ruff", "sphinx"} <= set(names)
