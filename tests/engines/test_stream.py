"""A stream of numbered batches in one summary that is kept in a file."""

import pytest
from engines.here import Here, tables_of

from probi import InputError, Summary
from probi.engines.engine import SavedStream


def stream(path, n_clusters=2, random_state=None, **options):
    return SavedStream(Here(), path, n_clusters, random_state=random_state, **options)


def add(sink, values, batch, query="one"):
    """What an engine does with a batch."""
    if sink._is_new(batch, query):
        sink._add(tables_of({"x": values}, [0, 1]) if values else None, batch, query)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.probi"


def test_a_batch_that_comes_again_is_skipped(path):
    for batch, values in ((0, [1.0, 2.0]), (0, [1.0, 2.0]), (1, [3.0, 4.0, 5.0]), (0, [1.0, 2.0]), (1, [3.0])):
        add(stream(path), values, batch)
    assert Summary.load(path).n_nodes == 5
    assert Summary.load(path).about["stream"] == {"query": "one", "batch": 1, "next_shard": 5, "seed": 0}


def test_a_stream_goes_on_as_if_it_had_not_stopped(path, tmp_path):
    batches = [[float(i + 10 * batch) for i in range(200)] for batch in range(4)]
    whole = stream(tmp_path / "whole.probi", size=8)
    for batch, values in enumerate(batches):
        add(whole, values, batch)
        add(stream(path, size=8), values, batch)
    assert path.read_bytes() == (tmp_path / "whole.probi").read_bytes()
    assert whole.summary.n_nodes == 800 > whole.summary.n_retained


def test_a_batch_may_be_empty_and_scales_are_those_of_the_first_nodes(path):
    spaces = []
    for batch, values in enumerate(([], [1.0, 2.0, 3.0], [], [50.0, 90.0])):
        add(stream(path, scale="standard"), values, batch)
        spaces.append(Summary.load(path).about.get("space"))
    assert Summary.load(path).n_nodes == 5
    assert spaces[1] == spaces[2] == spaces[3]
    assert spaces[1]["scale"] is not None


def test_a_state_of_another_query_is_refused(path):
    add(stream(path), [1.0, 2.0], 0)
    with pytest.raises(InputError, match="belongs to another query"):
        add(stream(path), [1.0, 2.0], 1, query="two")
    assert Summary.load(path).n_nodes == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_clusters": 1, "size": 8}, "n_clusters 2, but 1"),
        ({"size": 9}, "size 8, but 9"),
        ({"size": 8, "preset": "paper"}, "preset 'default', but 'paper'"),
        ({"size": 8, "random_state": 7}, "seed 0, but 7"),
    ],
)
def test_other_parameters_are_refused(path, settings, message):
    add(stream(path, size=8), [1.0, 2.0], 0)
    with pytest.raises(InputError, match=message):
        stream(path, **settings)


def test_a_summary_that_is_not_of_a_stream_is_refused(path):
    Summary(2).save(path)
    with pytest.raises(InputError, match="not of a stream"):
        stream(path)


def test_before_the_first_batch_it_is_empty(path):
    assert stream(path).summary.n_nodes == 0
    assert not path.exists()


def test_too_many_rows_that_are_left_out_stop_the_stream(path):
    """The share is that of all that has arrived: a batch may be small."""
    good, bad, how = [float(i) for i in range(18)], [None, None, 1.0], {"layout": "points", "missing": "skip-row"}
    sink = stream(path, **how)
    add(sink, good, 0)
    add(sink, bad, 1)
    with pytest.raises(InputError, match=r"4 of 24 rows"):
        add(sink, bad, 2)
    assert sink.summary.n_nodes == 19
    sink = stream(path, max_bad=0.5, **how)
    add(sink, bad, 2)
    assert (sink.summary.n_nodes, sink.summary.about["counts"]["missing"]) == (20, 4)
