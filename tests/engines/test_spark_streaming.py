"""A structured stream of Spark into one summary: each node once, whatever is killed when."""

import os
import signal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines.spark_sessions import answer, need_spark, run_stream
from table_files import as_nodes, columns_of, some_nodes, write

from probi import InputError, Summary

need_spark()

from pyspark.errors import StreamingQueryException  # noqa: E402

from probi.engines.spark import StreamingSummary  # noqa: E402

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


def test_each_node_is_counted_once_whatever_is_killed(spark, whole, folder, tmp_path, monkeypatch):
    state, checkpoint = tmp_path / "state.probi", tmp_path / "checkpoint"

    def assert_not_noted(batch, n_nodes):
        """Spark has not noted the batch, and comes with it again."""
        assert Summary.load(state).n_nodes == n_nodes
        assert not (checkpoint / "commits" / str(batch)).exists()
        assert (checkpoint / "offsets" / str(batch)).exists()

    # The whole process, before a batch is saved; then, in a session that lives on, the batch after it is saved.
    ended = answer("stream", folder=str(folder), state=str(state), checkpoint=str(checkpoint), batch=1)
    assert ended == -signal.SIGKILL
    assert_not_noted(1, 100)
    save = Summary.save

    def fail(summary, path):
        save(summary, path)
        if summary.about["stream"]["batch"] == 2:
            raise RuntimeError("failed after the batch was saved")

    with monkeypatch.context() as patch:
        patch.setattr(Summary, "save", fail)
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
    for i, n in enumerate((0, 4, 0, 4)):
        part = columns_of(some_nodes("long", n=4, seed=i), "long")
        schema = pa.table(part).schema
        pq.write_table(
            pa.table({name: values[: n * 5] for name, values in part.items()}, schema), arriving / f"{i}.parquet"
        )
        told = run_stream(spark, arriving, state, tmp_path / "checkpoint", scale="standard")
        assert told["n_nodes"] == (0, 4, 4, 8)[i]
        spaces.append(Summary.load(state).about.get("space"))
    assert spaces[1] == spaces[2] == spaces[3]
    assert spaces[1]["scale"] is not None


def test_a_state_of_another_query_is_refused(spark, whole, folder, tmp_path):
    state = whole[0] / "state.probi"
    before = state.read_bytes()
    with pytest.raises(StreamingQueryException, match="belongs to another query"):
        run_stream(spark, folder, state, tmp_path / "checkpoint")
    assert state.read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_clusters": 1}, "n_clusters 2, but 1"),
        ({"size": 9}, "size 8, but 9"),
        ({"preset": "paper"}, "preset 'default', but 'paper'"),
        ({"random_state": 7}, "seed 0, but 7"),
    ],
)
def test_other_parameters_are_refused(whole, settings, message):
    with pytest.raises(InputError, match=message):
        StreamingSummary(whole[0] / "state.probi", **{"n_clusters": 2, "size": 8} | settings)


def test_a_summary_that_is_not_of_a_stream_is_refused(tmp_path):
    Summary(2).save(tmp_path / "x.probi")
    with pytest.raises(InputError, match="not of a stream"):
        StreamingSummary(tmp_path / "x.probi", 2)


def test_before_the_first_batch_it_is_empty(tmp_path):
    sink = StreamingSummary(tmp_path / "x.probi", 2)
    assert sink.summary.n_nodes == 0
    assert not (tmp_path / "x.probi").exists()


def test_too_many_rows_that_are_left_out_stop_the_stream(spark, tmp_path):
    """The share is that of all that has arrived: a batch may be small."""
    good = spark.createDataFrame([(float(i),) for i in range(18)], "x double")
    bad = spark.createDataFrame([(None,), (None,), (1.0,)], "x double")
    how = {"layout": "points", "missing": "skip-row"}
    sink = StreamingSummary(tmp_path / "state.probi", 2, **how)
    sink(good, 0)
    sink(bad, 1)
    with pytest.raises(InputError, match=r"4 of 24 rows"):
        sink(bad, 2)
    assert sink.summary.n_nodes == 19
    sink = StreamingSummary(tmp_path / "state.probi", 2, max_bad=0.5, **how)
    sink(bad, 2)
    assert (sink.summary.n_nodes, sink.summary.about["counts"]["missing"]) == (20, 4)
