"""Summary: what it takes and refuses, scaling, threads and forks, its constructor."""

import copy
import functools
import math
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose
from samples import certain, forking, in_child, some_centers, summarized, uncertain

from probi import InputError, Nodes, Summary, _parallel
from probi.coreset import PRESETS as PRESETS_OF_SUMMARIES
from probi.summary.audit import AuditSample
from probi.summary.buffer import Buffer

PRESETS = ["default", "paper"]


# -- update -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [None, "nodes"])
def test_only_nodes_and_arrays_are_read(what):
    summary = summarized(certain(10))
    before = summary.to_bytes()
    with pytest.raises(InputError, match="Expected Nodes, an array"):
        summary.update(what)
    assert summary.to_bytes() == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [10, 64, 200])
def test_other_features_are_refused(n, dtype):
    summary = summarized(certain(n))
    before = summary.to_bytes()
    with pytest.raises(InputError, match="Nodes have 3 features, but the summary has read nodes with 2"):
        summary.update(certain(100, d=3, dtype=dtype))
    assert summary.to_bytes() == before


def test_no_nodes_change_nothing():
    summary = Summary(2, 8, random_state=0)
    before = summary.to_bytes()
    summary.update(certain(5, d=3)[:0])
    assert summary.to_bytes() == before
    assert summary.n_features is summary.dtype is None
    summary.update(certain(100, dtype=np.float32))
    before = summary.to_bytes()
    summary.update(certain(5)[:0])
    assert summary.to_bytes() == before


class Later:
    """Raises when it is called for the n-th time; before, it does what it stands for."""

    def __init__(self, function, n, error):
        self.function, self.left, self.error = function, n, error

    def __call__(self, *arguments, **options):
        self.left -= 1
        if self.left == 0:
            raise self.error
        return self.function(*arguments, **options)


def looks(summary):
    return summary.to_bytes(), repr(summary), summary.lower_bound, summary.coreset()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "error", "n_jobs"),
    [
        *((when, KeyboardInterrupt, 2) for when in (1, 20)),
        *((3, error, 1) for error in (MemoryError, KeyboardInterrupt)),
    ],
)
@pytest.mark.parametrize("preset", PRESETS)
def test_a_reduce_that_fails_leaves_the_summary_as_it_was(monkeypatch, preset, when, error, n_jobs):
    some = uncertain({"default": 1500, "paper": 300}[preset])
    summary = summarized(some[:100], preset=preset)
    before = looks(summary)
    with monkeypatch.context() as patch, _parallel.limited(n_jobs):
        later = Later(PRESETS_OF_SUMMARIES[preset].reduce, when, error)
        patch.setattr(PRESETS_OF_SUMMARIES[preset], "reduce", lambda *arguments: later(*arguments))
        with pytest.raises(error):
            summary.update(some[100:])
    assert looks(summary) == before
    summary.update(some[100:])
    assert summary.to_bytes() == summarized(some, preset=preset).to_bytes()


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_an_audit_that_fails_leaves_the_summary_as_it_was(monkeypatch, error):
    some = uncertain(2000)
    summary = summarized(some[:100])
    before = looks(summary)
    with monkeypatch.context() as patch:
        later = Later(AuditSample.candidates, 5, error)
        patch.setattr(AuditSample, "candidates", lambda *arguments: later(*arguments))
        with pytest.raises(error):
            summary.update(some[100:])
    assert looks(summary) == before


@pytest.mark.parametrize("n", [5, 50, 500])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_buffer_that_cannot_grow_leaves_the_summary_as_it_was(monkeypatch, dtype, n):
    some = uncertain(600, dtype=dtype)
    summary = summarized(certain(100, dtype=np.float32))

    def no_memory(*_):
        raise MemoryError

    before = looks(summary)
    with monkeypatch.context() as patch:
        patch.setattr(Buffer, "append", no_memory)
        with pytest.raises(MemoryError):
            summary.update(some[:n])
    assert looks(summary) == before


# -- scale ------------------------------------------------------------------------------------------------------------


@functools.cache
def one_summary(n, preset):
    return summarized(uncertain(min(n, 300) if preset == "paper" else n), 500, preset=preset)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("n", [6, 50, 2300])
@pytest.mark.parametrize("factor", [0.5, 3, np.float32(0.25), np.int64(2), 1e-6])
def test_all_that_is_linear_in_the_weights_is_scaled(n, factor, preset):
    plain = one_summary(n, preset)
    summary = copy.copy(plain)
    repr(summary), summary.coreset(), summary.evaluate(some_centers())  # found before, to be forgotten
    summary.scale(factor)
    for name in ("mass", "spread_cost", "lower_bound"):
        assert_allclose(getattr(summary, name), float(factor) * getattr(plain, name), rtol=1e-12)
    assert (summary.n_nodes, summary.n_retained) == (plain.n_nodes, plain.n_retained)
    assert_allclose(
        tuple(summary.evaluate(some_centers())),
        np.multiply(float(factor), tuple(plain.evaluate(some_centers()))),
        rtol=1e-9,
    )
    assert_allclose(summary.coreset().mass.sum(), float(factor) * plain.coreset().mass.sum(), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.5, 0.3])
@pytest.mark.parametrize("n", [30, 64, 1500])
def test_to_fade_the_past_is_to_read_it_with_smaller_weights(n, factor):
    past, present = uncertain(n, seed=1), uncertain(700 if n < 1500 else 1500, seed=2)
    faded, decayed = summarized(past, 100), summarized(past.with_weights(past.weights * factor), 100)
    faded.scale(factor)
    faded.update(present)
    decayed.update(present)
    assert_allclose(faded.mass, decayed.mass, rtol=1e-12)
    assert_allclose(tuple(faded.evaluate(some_centers())), tuple(decayed.evaluate(some_centers())), rtol=1e-9)
    if factor == 0.5:  # exact in binary
        assert faded.coreset() == decayed.coreset()


BAD_FACTORS = [0, 0.0, -1, math.nan, math.inf, -math.inf, True, np.True_, "2", None, [2.0], 2j, np.complex64(2)]


@pytest.mark.parametrize("factor", [*BAD_FACTORS, 1e-300, 1e300, 10**400], ids=lambda factor: repr(factor)[:20])
@pytest.mark.parametrize("n", [5, 500])
def test_bad_factors_are_refused_and_change_nothing(n, factor):
    summary = summarized(uncertain(n))
    before = summary.to_bytes()
    with pytest.raises(InputError, match=r"[Ff]actor|Scaled|weights"):
        summary.scale(factor)
    assert summary.to_bytes() == before


def test_an_empty_summary_has_nothing_to_scale():
    summary = Summary(2, 8, random_state=0)
    before = summary.to_bytes()
    summary.scale(0.5)
    assert summary.to_bytes() == before
    assert summary.mass == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1e-100, 1e-3, 0.5])
def test_what_fades_to_nothing_leaves_a_summary_that_loads(factor):
    summary = Summary(1, size=50, audit_size=60, random_state=0)
    summary.update(certain(500))
    for _ in range(int(np.ceil(-330 / np.log10(factor)))):
        summary.scale(factor)
        summary.update(certain(1))
    again = Summary.from_bytes(summary.to_bytes())
    assert again.evaluate(np.zeros((1, 2))) == summary.evaluate(np.zeros((1, 2)))
    one = Summary(1, random_state=0)
    one.update(certain(1))
    share = 1.0 / (1.0 - factor)  # how many times the last node all that is left counts
    assert_allclose(summary.mass, share * one.mass)
    estimate = summary.evaluate(np.zeros((1, 2)))
    assert_allclose(estimate.cost, share * one.evaluate(np.zeros((1, 2))).cost, rtol=1e-9)


# -- threads and forks ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("step", [3, 100])
def test_threads_may_update_at_the_same_time(step):
    n = 40 * step if step < 10 else 300  # of each thread
    some, summary, errors = uncertain(4 * n), Summary(2, 8, random_state=0), []
    together = threading.Barrier(4)

    def read(part):
        try:
            together.wait(20)
            for start in range(0, len(part), step):
                summary.update(part[start : start + step])
                assert repr(summary)
                assert len(summary.coreset()) <= 8
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read, args=(some[i * n : (i + 1) * n],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert summary.n_nodes == 4 * n
    assert_allclose(summary.mass, some.mass.sum(), rtol=1e-12)
    assert_allclose(summary.coreset().mass.sum(), some.mass.sum(), rtol=1e-9)


@forking
def test_a_lock_that_another_thread_holds_does_not_stop_a_forked_child():
    some = uncertain(300)
    summary, expected = summarized(some[:100]), summarized(some)
    held, done = threading.Event(), threading.Event()

    def hold():
        with summary._lock():
            held.set()
            done.wait(60)

    def read_on():
        summary.update(some[100:])
        return summary.n_nodes, summary.coreset().weights.tolist(), summary.to_bytes()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(20)
        assert in_child(read_on) == (300, expected.coreset().weights.tolist(), expected.to_bytes())
    finally:
        done.set()
        thread.join()
    assert summary.n_nodes == 100


# -- the constructor and repr -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 0}, "n_clusters is 0"),
        ({"n_clusters": -1}, "n_clusters is -1"),
        ({"n_clusters": 2.0}, "n_clusters is 2.0"),
        ({"n_clusters": True}, "n_clusters is True"),
        ({"n_clusters": "2"}, "n_clusters is '2'"),
        ({"n_clusters": None}, "n_clusters is None"),
        ({"n_clusters": 10**400, "size": None}, "n_clusters must be at most 1,099,511,627,776: no memory holds more"),
        ({"size": 2**40 + 1}, "size must be at most"),
        ({"size": 7}, "A size of 7 is too small for 2 clusters: give at least 8"),
        ({"size": 0}, "size is 0"),
        ({"size": 8.0}, "size is 8.0"),
        ({"size": True, "n_clusters": 1}, "size is True"),
        ({"preset": "fast"}, "preset is 'fast', but must be one of default, paper"),
        ({"preset": None}, "preset is None"),
        ({"preset": ["default"]}, "preset is"),
        ({"shard": -1}, "shard is -1"),
        ({"shard": 0.5}, "shard is 0.5"),
        ({"shard": None}, "shard is None"),
        ({"random_state": -1}, "random_state is -1"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"random_state": 1.5}, "random_state must be"),
    ],
)
def test_bad_parameters_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Summary(**{"n_clusters": 2, "size": 8} | options)


@pytest.mark.parametrize("made", [np.random.default_rng, np.random.RandomState, np.random.SeedSequence])
def test_generators_are_seeds(made):
    some = certain(300)
    first, second, other = (summarized(some, random_state=made(seed)) for seed in (5, 5, 6))
    assert first.to_bytes() == second.to_bytes() != other.to_bytes()


@pytest.mark.parametrize("made", [np.random.default_rng, np.random.RandomState])
def test_a_generator_goes_on_from_summary_to_summary(made):
    rng, some = made(5), certain(300)
    assert summarized(some, random_state=rng).to_bytes() != summarized(some, random_state=rng).to_bytes()


def test_without_a_seed_each_summary_has_one_of_its_own():
    some = certain(300)
    assert summarized(some, random_state=None).to_bytes() != summarized(some, random_state=None).to_bytes()


def test_whole_numbers_of_numpy_are_whole_numbers():
    summary = summarized(certain(300), n_clusters=np.int64(2), size=np.int32(8), random_state=np.int64(0))
    assert summary.to_bytes() == summarized(certain(300)).to_bytes()
    assert (summary.n_clusters, summary.size, summary.preset) == (2, 8, "default")


def test_repr_tells_what_was_read():
    summary = Summary(2, 8, random_state=0)
    assert repr(summary) == "Summary(0 nodes read, 0 kept, up to 2 clusters, coreset of 8, mass 0)"
    summary.update(Nodes.from_points(np.zeros((1000, 1)), np.full(1000, 2.0)))
    # 15 leaves of 64 are three coresets of four of them and three more; 40 nodes wait.
    assert repr(summary) == "Summary(1,000 nodes read, 88 kept, up to 2 clusters, coreset of 8, mass 2,000)"
    assert "as in the paper" in repr(Summary(3, preset="paper"))


class _UpdatedWhenReleased:
    """A lock on whose first release another thread gets in and updates the summary."""

    def __init__(self, summary, nodes):
        self._lock, self._update, self._depth = summary._lock(), lambda: summary.update(nodes), 0

    def __call__(self):
        return self

    def __enter__(self):
        self._lock.__enter__()
        self._depth += 1

    def __exit__(self, *error):
        self._depth -= 1
        self._lock.__exit__(*error)
        if self._depth == 0 and self._update is not None:
            update, self._update = self._update, None
            update()


@pytest.mark.parametrize("max_realizations", [None, 2])
def test_an_evaluation_is_of_one_state(max_realizations):
    summary = Summary(2, size=50, random_state=0, max_realizations=max_realizations)
    summary.update(uncertain(400))
    centers = np.zeros((1, 2))
    before = summary.evaluate(centers)
    summary._lock = _UpdatedWhenReleased(summary, uncertain(400, seed=1))
    found = summary.evaluate(centers)
    after = summary.evaluate(centers)
    assert after != before
    assert found in (before, after)
