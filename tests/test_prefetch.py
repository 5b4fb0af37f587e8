"""Reading ahead: the same items in the same order, no thread left behind."""

import gc
import threading
import time

import pytest
from table_files import write

import probi.io
from probi._parallel import AHEAD, prefetched
from probi.errors import InputError


def readers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("probi-")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    assert not readers()
    yield
    if readers():  # collecting garbage takes longer than the tests
        gc.collect()
    assert not readers()


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 2, 3, 100])
def test_the_same_items_in_the_same_order(n):
    assert list(prefetched(range(n))) == list(range(n))
    assert list(prefetched([None] * n)) == [None] * n


@pytest.mark.slow
def test_an_exception_comes_out_in_its_place():
    def items():
        yield 1
        yield 2
        raise KeyError("here")

    ahead = prefetched(items())
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(KeyError, match="here"):
        next(ahead)


@pytest.mark.slow
def test_what_cannot_be_iterated_is_an_exception_and_no_wait():
    with pytest.raises(TypeError, match="not iterable"):
        list(prefetched(7))


@pytest.mark.slow
def test_items_are_made_ahead_but_not_too_far():
    made = []

    def items():
        for i in range(100):
            made.append(i)
            yield i

    ahead = prefetched(items())
    next(ahead)
    time.sleep(0.3)
    assert 2 <= len(made) <= AHEAD + 2
    ahead.close()


@pytest.mark.slow
def test_closing_early_ends_the_thread_and_closes_the_items():
    closed = []

    def items():
        try:
            yield from range(1000)
        finally:
            closed.append(threading.current_thread().name)

    ahead = prefetched(items())
    assert next(ahead) == 0
    assert readers()
    ahead.close()
    assert not readers()
    assert closed == ["probi-read"]


@pytest.mark.slow
def test_forgetting_it_ends_the_thread():
    for item in prefetched(range(1000)):
        if item == 3:
            break
    gc.collect()
    assert not readers()


@pytest.mark.slow
def test_nothing_starts_before_the_first_item_is_wanted():
    prefetched(range(10))
    assert not readers()


@pytest.mark.slow
def test_a_reader_that_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr("probi.io.formats.csv_file.BLOCK", 64)
    path = write(tmp_path / "x.csv", {"x": [float(i) for i in range(3000)]})
    batches = probi.io.read(path).batches()
    next(batches)
    batches.close()
    assert not readers()
    path.write_text(path.read_text() + "bad\n")
    with pytest.raises(InputError):
        list(probi.io.read(path))
    assert not readers()
