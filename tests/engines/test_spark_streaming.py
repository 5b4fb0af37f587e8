"""A structured stream of Spark into one summary: each node once, whatever fails when."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines.spark_sessions import need_spark, run_stream
from table_files import as_nodes, columns_of, some_nodes, write

from probi import Summary

need_spark()

from pyspark.errors import StreamingQueryException  # noqa: E402

pytestmark = pytest.mark.spark

N_FILES = 4
PLAIN = some_nodes("long", n=400)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of 100 nodes, one after the other in time."""
    folder = tmp_path_factory.mktemp("arriving")
    for i in range(N_FILES):
        columns = columns_of(PLAIN[100 * i : 100 * (i + 1)], "long")
        path = write(folder / f"{i}.parquet", columns, step=1000)
        os.utime(path, (1e9 + i, 1e9 + i))
    return folder


@pytest.fixture(scope="module")
def whole(spark, folder, tmp_path_factory):
    """Folder of a stream that went to its end, and what it told."""
    place = tmp_path_factory.mktemp("whole")
    return place, run_stream(spark, folder, place / "state.probi", place / "checkpoint")


def bytes_but_query(path):
    summary = Summary.load(path)
    del summary.about["stream"]["query"]
    return summary.to_bytes()


def test_all_that_arrives_is_counted(whole):
    place, told = whole
    summary = Summary.load(place / "state.probi")
    nodes = as_nodes(PLAIN)
    assert told["n_nodes"] == summary.n_nodes == len(nodes) > summary.n_retained
    assert summary.mass == pytest.approx(nodes.mass.sum(), rel=1e-12)
    assert told["state"]["batch"] == N_FILES - 1
    assert told["state"]["next_shard"] == 1 + 2 * N_FILES


def test_the_state_belongs_to_a_query(whole):
    _, told = whole
    assert told["query"] is not None
    assert told["state"]["query"] == told["query"]


def test_each_node_is_counted_once_whatever_fails(spark, whole, folder, tmp_path, monkeypatch):
    state, checkpoint = tmp_path / "state.probi", tmp_path / "checkpoint"

    def assert_not_noted(batch, n_nodes):
        """Spark has not noted the batch, and comes with it again."""
        assert Summary.load(state).n_nodes == n_nodes
        assert not (checkpoint / "commits" / str(batch)).exists()
        assert (checkpoint / "offsets" / str(batch)).exists()

    # Once before a batch is saved, and once after it: all that a run leaves are the two files.
    save = Summary.save

    def fail(summary, path):
        batch = summary.about["stream"]["batch"]
        if batch == 1 and len(n_failed) == 0:
            n_failed.append(batch)
            raise RuntimeError("failed before the batch was saved")
        save(summary, path)
        if batch == 2:
            raise RuntimeError("failed after the batch was saved")

    n_failed = []
    with monkeypatch.context() as patch:
        patch.setattr(Summary, "save", fail)
        with pytest.raises(StreamingQueryException, match="failed before"):
            run_stream(spark, folder, state, checkpoint)
        assert_not_noted(1, 100)
        with pytest.raises(StreamingQueryException, match="failed after"):
            run_stream(spark, folder, state, checkpoint)
    assert_not_noted(2, 300)
    told = run_stream(spark, folder, state, checkpoint)
    assert told["n_nodes"] == len(PLAIN)
    assert bytes_but_query(state) == bytes_but_query(whole[0] / "state.probi")


def test_what_arrives_later_is_added(spark, tmp_path):
    """A file without rows, also as the first one; what follows is in the scales of the first nodes."""
    arriving, state = tmp_path / "arriving", tmp_path / "state.probi"
    arriving.mkdir()
    spaces = []
    for i, n in enumerate((0, 4, 4)):
        part = columns_of(some_nodes("long", n=4, seed=i), "long")
        schema = pa.table(part).schema
        pq.write_table(
            pa.table({name: values[: n * 5] for name, values in part.items()}, schema), arriving / f"{i}.parquet"
        )
        told = run_stream(spark, arriving, state, tmp_path / "checkpoint", scale="standard")
        assert told["n_nodes"] == (0, 4, 8)[i]
        spaces.append(Summary.load(state).about.get("space"))
    assert spaces[1] == spaces[2]
    assert spaces[1]["scale"] is not None


def test_a_state_of_another_query_is_refused(spark, whole, folder, tmp_path):
    state = whole[0] / "state.probi"
    before = state.read_bytes()
    with pytest.raises(StreamingQueryException, match="belongs to another query"):
        run_stream(spark, folder, state, tmp_path / "checkpoint")
    assert state.read_bytes() == before
