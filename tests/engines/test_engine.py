"""What engines share: how sources are read in parts, and the two passes over them."""

import json
import math
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from engines.here import Here, tables_of
from numpy.testing import assert_array_equal
from table_files import as_nodes, columns_of, options_of, some_nodes, write

import probi
from probi import InputError, expected_cost
from probi.engines import NAMES
from probi.engines.engine import Frame
from probi.engines.tasks import Summarize
from probi.summary.config import SummaryConfig

CENTERS = np.array([[-5.0, 5.0], [0.0, 0.0], [6.0, 3.0]])
LAYOUTS = ["points", "groups", "long", "nested", "nested columns"]


def rows_of(plain, layout):
    """The number of each row's node."""
    per_row = [1 if layout.startswith("nested") else len(node.realizations) for node in plain]
    return np.repeat(np.arange(len(plain)), per_row)


def partitions(plain, layout, columns, n_parts=3):
    """Tables of whole nodes, and one without rows."""
    nodes = rows_of(plain, layout)
    starts = np.searchsorted(nodes, np.linspace(0, len(plain), n_parts + 1).astype(int)[:-1]).tolist()
    return tables_of(columns, [*starts[:2], starts[1], *starts[2:]])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_passes_over_tables(layout):
    plain = some_nodes(layout, n=60, ids="str")
    nodes, frame = as_nodes(plain), partitions(plain, layout, columns_of(plain, layout))
    summary = Here().summarize(frame, 3, {"random_state": 0} | options_of(layout))
    assert summary.n_nodes == len(nodes)
    assert_array_equal(summary.coreset().ids, nodes.ids)
    assert summary.evaluate(CENTERS).cost == pytest.approx(expected_cost(nodes, CENTERS), rel=1e-12)
    found = Here().assign(frame, CENTERS, options_of(layout), None, 1)
    assert_array_equal(found["cluster"], probi.assign(nodes, CENTERS))
    assert "row" not in found.column_names


def test_options_of_a_summary_go_to_it():
    frame = tables_of({"x": np.arange(4000.0)}, [0, 1000, 2000, 3000])
    first, again, other = (
        Here().summarize(frame, 2, {"size": 8, "audit_size": 5, "random_state": seed}) for seed in (1, 1, 2)
    )
    assert first.to_bytes() == again.to_bytes() != other.to_bytes()
    assert len(first.sample()) < 4000


def test_a_partition_without_a_column_is_compared_with_the_first_rows():
    """It said "partition 1 has no column 'y', which partition 1 has"."""
    first = pa.table({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    how = Frame.of(first, {})
    with pytest.raises(InputError, match=r"^partition 1 has no column 'y', which the first rows have"):
        how.run(Summarize(SummaryConfig(1)), 1, [first.drop_columns("y")])


@pytest.mark.parametrize("frame", [True, False])
def test_the_second_pass_is_in_the_scales_of_the_first(tmp_path, frame):
    x = np.sort(np.random.default_rng(0).normal(size=400))
    columns = {"x": x, "y": 100 * x[::-1]}
    whole = tables_of(columns, [0, 200]) if frame else write(tmp_path / "x.parquet", columns, step=100)
    some = tables_of({"x": x[:50], "y": 100 * x[::-1][:50]}, [0]) if frame else tmp_path / "some.parquet"
    if not frame:
        write(some, {"x": x[:50], "y": 100 * x[::-1][:50]})
    reading = {"scale": "standard"}
    space = Here().summarize(whole, 2, {"random_state": 0} | reading).about["space"]
    centers = np.array([[-1.0, 1.0], [1.0, -1.0]])
    labels = Here().assign(whole, centers, reading, None, 1)["cluster"].to_numpy()[:50]
    distances = [Here().assign(some, centers, reading, given, 1)["expected_distance"] for given in (space, None)]
    expected = Here().assign(whole, centers, reading, None, 1)["expected_distance"].to_numpy()[:50]
    assert len(set(labels)) == 1
    assert distances[0].to_numpy() == pytest.approx(expected, rel=1e-12)
    assert distances[1].to_numpy() != pytest.approx(expected, rel=1e-3)


def test_too_many_rows_that_are_left_out_are_an_error():
    frame = tables_of({"x": [1.0, 2.0, None, None, 3.0]}, [0, 3])
    reading = {"layout": "points", "missing": "skip-row"}
    with pytest.raises(InputError, match="2 of 5 rows"):
        Here().summarize(frame, 1, dict(reading))
    assert Here().summarize(frame, 1, reading | {"max_bad": 0.5}).about["counts"]["missing"] == 2


# -- labels of rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS[:4])
def test_each_row_has_the_label_of_its_node(layout):
    plain = some_nodes(layout, n=200)
    columns = columns_of(plain, layout)
    table = pa.table(columns)
    how = Frame.of(table, options_of(layout))
    pieces = [table.slice(i, 7) for i in range(0, len(table), 7)]  # nodes go across their borders
    found = list(how.labeled(0, pieces, CENTERS))
    assert pa.concat_tables([rows for rows, _ in found]).equals(table)
    labels = probi.assign(as_nodes(plain), CENTERS)[rows_of(plain, layout)]
    assert [label for _, some in found for label in some.to_pylist()] == labels.tolist()
    assert len(set(labels)) == 3


@pytest.mark.parametrize("layout", ["long", "groups"])
def test_rows_of_rejected_nodes_have_no_label(layout):
    plain = some_nodes(layout, n=120)
    columns, node = columns_of(plain, layout), rows_of(plain, layout).tolist()
    bad = {0, 1, 50, len(node) - 1}
    columns["x0"] = [math.inf if i in bad else x for i, x in enumerate(columns["x0"])]
    gone = {node[row] for row in bad}
    if layout == "groups":  # the last two rows are no group
        columns = {name: [*values, *values[:2]] for name, values in columns.items()}
        node, gone = [*node, len(plain), len(plain)], gone | {len(plain)}
    table = pa.table(columns)
    how = Frame.of(table, {"on_bad": "skip"} | options_of(layout))
    pieces = [table.slice(i, 13) for i in range(0, len(table), 13)]
    found = [label for _, some in how.labeled(0, pieces, CENTERS) for label in some.to_pylist()]
    labels = probi.assign(as_nodes(plain), CENTERS)
    assert found == [None if i in gone else labels[i] for i in node]


def test_a_partition_without_rows_has_no_labels():
    how = Frame.of(pa.table({"x": [1.0], "y": [2.0]}), {})
    assert list(how.labeled(0, [], CENTERS)) == []


# -- an engine is one file --------------------------------------------------------------------------------------------

THREADS = """
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from probi.engines.engine import Engine, no_progress
from probi.engines.tasks import merge


class Threads(Engine):
    def __init__(self, pool):
        self.pool = pool

    def on_files(self, files, task, numbers):
        return list(self.pool.map(lambda number: files.run(task, number), numbers))

    def collect(self, parts):
        return parts

    def merge(self, parts, task, on_part=no_progress):
        return merge(parts)


@contextmanager
def connected(workers):
    with ThreadPoolExecutor(int(workers)) as pool:
        yield Threads(pool)
"""

# The folder of the engines has one more file.
MAIN = """
import importlib.util, sys
spec = importlib.util.find_spec("probi.engines")
spec.submodule_search_locations.append(sys.argv.pop(1))
sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])
from probi.cli.app import main
main()
"""


@pytest.mark.process
def test_a_new_engine_is_one_file(tmp_path):
    assert NAMES == ["dask", "spark"]
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines" / "threads.py").write_text(THREADS)
    rng = np.random.default_rng(0)
    path = write(tmp_path / "x.parquet", {"x": rng.normal(size=40), "y": rng.normal(size=40)}, step=10)
    options = ("-k", "2", "--engine", "threads", "--workers", "2", "--part-size", "1", "--json", "-o", tmp_path / "out")
    command = [sys.executable, "-c", MAIN, tmp_path / "engines", "cluster", path, *options]
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "Threads: 1 part." in ran.stderr
    assert json.loads(ran.stdout)["n_nodes"] == 40
    assert (tmp_path / "out" / "assignment.parquet").exists()
