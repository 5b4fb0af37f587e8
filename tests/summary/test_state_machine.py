"""Summaries, windows and checkpoints against models that keep every node: calls in any order, files, interrupts."""

import copy
import pickle
import shutil
import sys
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import naive
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.testing import assert_allclose
from samples import interrupted_by
from strategies import examples

import probi
import probi.io
from probi import SolverWarning
from probi.errors import StoppedError
from probi.io import passes
from probi.io.formats import base, csv_file

# The least that two clusters allow: a leaf has 64 nodes, so that a few batches reach all levels.
SIZE = 8
N_SUMMARIES = 3
PERIOD, N_PERIODS = 10, 3

FOLDER = str(Path(probi.__file__).parent)

STEPS = settings(examples(6), stateful_step_count=20)

CENTERS = [[0.0, 0.0], [9.0, 9.0]]
KINDS = ("points", "readings", "absent", "weighted", "equal", "far")
seeds = st.integers(0, 2**32 - 1)
# Lines of code before an interrupt: a call that reduces a leaf runs some hundred.
moments = st.none() | st.integers(1, 400)
factors = st.sampled_from([0.5, 1.0, 3.0, 1e-30, 1e20])


def some_nodes(kind, n, seed):
    """Nodes of two features with ids."""
    rng = np.random.default_rng(seed)
    sizes = np.ones(n, int) if kind == "points" else rng.integers(1, 6, n)
    points = rng.normal(size=(sizes.sum(), 2)) + 9 * rng.integers(3, size=(sizes.sum(), 1))
    points = {"equal": np.ones_like(points), "far": points + 1e9}.get(kind, points)
    probabilities = np.repeat(1 / sizes, sizes) * (0.5 if kind == "absent" else 1.0)
    weights = rng.integers(0, 5, n).astype(float) if kind == "weighted" else None
    return probi.Nodes(
        points, probabilities, np.concatenate([[0], np.cumsum(sizes)]), weights, rng.integers(1000, size=n)
    )


@dataclass
class Kept:
    """Every node that was read, with its weight as it is now."""

    nodes: probi.Nodes
    spread_cost: float  # by medians far more exact than those of a summary

    @classmethod
    def of(cls, nodes):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SolverWarning)  # near the limit of rounding
            _, spreads = probi.one_medians(nodes, tol=1e-9)
        return cls(nodes, float(nodes.mass @ spreads))

    def scaled(self, factor):
        return Kept(self.nodes.with_weights(self.nodes.weights * factor), self.spread_cost * factor)


@dataclass
class Model:
    """What a summary must know, and the calls that made it."""

    kept: list[Kept] = field(default_factory=list)
    calls: list[tuple] = field(default_factory=list)

    @property
    def n_nodes(self):
        return sum(len(each.nodes) for each in self.kept)

    @property
    def mass(self):
        return sum(each.nodes.mass.sum() for each in self.kept)

    @property
    def spread_cost(self):
        return sum(each.spread_cost for each in self.kept)

    def cost(self, centers):
        return sum(naive_cost(each.nodes, centers) for each in self.kept)


def naive_cost(nodes, centers):
    plain = [list(zip(node.points.tolist(), node.probabilities.tolist(), strict=True)) for node in nodes]
    return sum(
        weight * min(row)
        for weight, row in zip(nodes.weights.tolist(), naive.expected_distances(plain, centers), strict=True)
    )


def interrupted(call, at):
    """Whether the call was interrupted before the ``at``-th line that it runs in the package."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        count += event == "line"
        if count == at:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    return interrupted_by(trace, call)


def call_or_interrupt(source, call, at):
    """Apply a call to a summary or window; interrupted, it must have changed all or nothing, and then work."""
    before, wanted = source.to_bytes(), copy.copy(source)
    call(wanted)
    if at is not None:
        interrupted(lambda: call(source), at)
        assert source.to_bytes() in (before, wanted.to_bytes())
    if source.to_bytes() == before:
        call(source)
    assert source.to_bytes() == wanted.to_bytes()


class Summaries(RuleBasedStateMachine):
    """Three summaries of shards of a stream; one that was merged into another is replaced by a new shard."""

    @initialize(max_realizations=st.sampled_from([None, 2]), preset=st.sampled_from(["default", "default", "paper"]))
    def begin(self, max_realizations, preset):
        self.parameters = {"size": SIZE, "audit_size": SIZE, "max_realizations": max_realizations, "preset": preset}
        self.n_shards = 0
        self.pairs = [self.new() for _ in range(N_SUMMARIES)]

    def new(self):
        self.n_shards += 1
        return [self.empty(self.n_shards), Model(calls=[("begin", self.n_shards)])]

    def empty(self, shard):
        return probi.Summary(2, random_state=0, shard=shard, **self.parameters)

    @rule(which=st.integers(0, N_SUMMARIES - 1), kind=st.sampled_from(KINDS), n=st.integers(0, 150), seed=seeds,
          at=moments)  # fmt: skip
    def update(self, which, kind, n, seed, at):
        summary, model = self.pairs[which]
        nodes = some_nodes(kind, n, seed)
        call_or_interrupt(summary, lambda each: each.update(nodes), at)
        model.kept.append(Kept.of(nodes))
        model.calls.append(("update", nodes))

    @rule(which=st.integers(0, N_SUMMARIES - 1), factor=factors)
    def scale(self, which, factor):
        summary, model = self.pairs[which]
        if model.n_nodes and not 1e-200 < model.mass * factor < 1e200:
            return
        before = tuple(summary.evaluate(CENTERS)) if model.n_nodes else ()
        summary.scale(factor)
        if model.n_nodes:
            assert_allclose(tuple(summary.evaluate(CENTERS)), [factor * number for number in before], rtol=1e-9)
        model.kept = [each.scaled(factor) for each in model.kept]
        model.calls.append(("scale", factor))

    @rule(which=st.integers(0, N_SUMMARIES - 1), other=st.integers(0, N_SUMMARIES - 1), at=moments)
    def merge(self, which, other, at):
        if which == other:
            return
        (summary, model), (more, theirs) = self.pairs[which], self.pairs[other]
        unchanged = more.to_bytes()
        call_or_interrupt(summary, lambda each: each.merge(more), at)
        assert more.to_bytes() == unchanged
        model.kept += theirs.kept
        model.calls.append(("merge", theirs.calls))
        self.pairs[other] = self.new()

    @rule(which=st.integers(0, N_SUMMARIES - 1), how=st.sampled_from(["bytes", "copy", "pickle", "sealed and dropped"]))
    def copy(self, which, how):
        summary, before = self.pairs[which][0], self.pairs[which][0].to_bytes()
        if how == "bytes":
            copied = probi.Summary.from_bytes(before)
        elif how == "sealed and dropped":
            assert summary.sealed().n_nodes == summary.n_nodes
            copied = summary
        else:
            copied = copy.copy(summary) if how == "copy" else pickle.loads(pickle.dumps(summary))
        assert copied.to_bytes() == before
        self.pairs[which][0] = copied

    @rule(which=st.integers(0, N_SUMMARIES - 1), seed=seeds)
    def evaluate(self, which, seed):
        summary, model = self.pairs[which]
        if model.n_nodes == 0:
            return
        before = summary.to_bytes()
        centers = np.random.default_rng(seed).normal(scale=9, size=(2, 2))
        true = model.cost(centers.tolist())
        cost, error = summary.evaluate(centers)
        coreset = summary.coreset()
        assert summary.to_bytes() == before
        assert_allclose(coreset.mass.sum(), model.mass, rtol=1e-9)
        assert len(coreset) <= model.n_nodes
        assert set(coreset.ids) <= {i for each in model.kept for i in each.nodes.ids.tolist()}
        assert np.isfinite(cost)
        assert np.isfinite(error)
        assert summary.lower_bound <= true * (1 + 1e-9)
        if model.n_nodes <= SIZE and self.parameters["max_realizations"] is None:
            assert error == 0.0
            assert_allclose(cost, true, rtol=1e-6)  # 1e9 from the origin

    @invariant()
    def agrees(self):
        for summary, model in getattr(self, "pairs", []):
            assert summary.n_nodes == model.n_nodes
            assert_allclose(summary.mass, model.mass, rtol=1e-9)
            assert summary.lower_bound <= model.spread_cost * (1 + 1e-6)
            if self.parameters["max_realizations"] is None:
                assert summary.spread_cost >= model.spread_cost * (1 - 1e-6)

    def teardown(self):
        """The same calls with other batches give the same bytes."""
        for summary, model in getattr(self, "pairs", []):
            assert self.replay(model.calls).to_bytes() == summary.to_bytes()

    def replay(self, calls):
        summary, waiting = self.empty(calls[0][1]), []
        for name, value in [*calls[1:], ("end", None)]:
            if name == "update":
                waiting.append(value)
                continue
            nodes = probi.Nodes.concat(waiting) if waiting else some_nodes("points", 0, 0)
            for start in range(0, len(nodes), 50):
                summary.update(nodes[start : start + 50])
            waiting = []
            if name == "scale":
                summary.scale(value)
            elif name == "merge":
                summary.merge(self.replay(value))
        return summary


class Windows(RuleBasedStateMachine):
    """A window, and every node with its period."""

    @initialize()
    def begin(self):
        self.window = probi.Window(PERIOD, N_PERIODS, n_clusters=2, size=SIZE, audit_size=SIZE, random_state=0)
        self.kept, self.latest, self.n_late, self.n_ahead = {}, None, 0, 0

    @rule(kind=st.sampled_from(KINDS), times=st.lists(st.integers(-20, 45), max_size=80), seed=seeds,
          at=moments)  # fmt: skip
    def update(self, kind, times, seed, at):
        shift = 0 if self.latest is None else self.latest * PERIOD
        nodes, numbers = some_nodes(kind, len(times), seed), [(time + shift) // PERIOD for time in times]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nodes ahead of the window
            call_or_interrupt(self.window, lambda each: each.update(nodes, np.array(times, int) + shift), at)
        for number, mass in zip(numbers, nodes.mass.tolist(), strict=True):
            if number > (number if self.latest is None else self.latest) + N_PERIODS:
                self.n_ahead += 1
                continue
            self.latest = number if self.latest is None else max(number, self.latest)
            if number <= self.latest - N_PERIODS:
                self.n_late += 1
            else:
                self.kept.setdefault(number, []).append(mass)

    @rule(ahead=st.integers(-20, 60))
    def advance(self, ahead):
        time = ahead + (0 if self.latest is None else self.latest * PERIOD)
        self.window.advance(time)
        number = time // PERIOD
        self.latest = number if self.latest is None else max(number, self.latest)

    @rule(how=st.sampled_from(["bytes", "copy"]))
    def copy(self, how):
        before = self.window.to_bytes()
        self.window = probi.Window.from_bytes(before) if how == "bytes" else copy.copy(self.window)
        assert self.window.to_bytes() == before

    @precondition(lambda self: self.latest is not None)
    @rule(last=st.integers(1, N_PERIODS))
    def summary(self, last):
        before = self.window.to_bytes()
        masses = [mass for number, each in self.kept.items() for mass in each if number > self.latest - last]
        summary = self.window.summary(last)
        assert summary.n_nodes == len(masses)
        assert_allclose(summary.mass, sum(masses), rtol=1e-9)
        summary.update(some_nodes("points", 3, 0))
        assert self.window.to_bytes() == before  # the summary is a copy

    @invariant()
    def agrees(self):
        if hasattr(self, "window"):
            counting = [len(each) for number, each in self.kept.items() if number > self.latest - N_PERIODS]
            assert self.window.n_nodes == sum(counting)
            assert (self.window.n_late, self.window.n_ahead) == (self.n_late, self.n_ahead)


class Checkpoints(RuleBasedStateMachine):
    """A file that runs read into a summary; they are stopped and interrupted, and each resumes where the last ended."""

    @initialize(n=st.integers(0, 300), every=st.integers(1, 120), seed=seeds)
    def begin(self, n, every, seed):
        self.folder, self.every = Path(tempfile.mkdtemp()), every
        self.blocks = csv_file.BLOCK, base.MAX_ROWS
        csv_file.BLOCK, base.MAX_ROWS = 400, 20
        rng = np.random.default_rng(seed)
        rows = [f"{number},{x},{y}" for number in range(n) for x, y in rng.normal(size=(rng.integers(1, 4), 2))]
        (self.folder / "x.csv").write_text("\n".join(["id,x,y", *rows, ""]))
        self.expected, self.n_nodes = self.read(None), n

    def read(self, checkpoint, is_stopped=lambda: False):
        """Bytes and counts of the summary of all, None if the run was stopped."""
        reader = probi.io.read(self.folder / "x.csv", layout="long")
        saved = checkpoint and passes.Checkpoint(checkpoint, self.every, reader, {"k": 2})
        summary = probi.Summary(2, size=SIZE, audit_size=SIZE, random_state=0)
        try:
            summary, counts = passes.summarize(reader, summary, checkpoint=saved, is_stopped=is_stopped)
        except StoppedError:
            return None
        return summary.to_bytes(), counts

    @rule(n_batches=st.integers(1, 12), at=moments)
    def run(self, n_batches, at):
        left = iter(range(n_batches))
        results = []

        def call():
            results.append(self.read(self.folder / "run.probi", lambda: next(left, None) is None))

        if at is None:
            call()
        else:
            interrupted(call, 20 * at)
        assert not results or results[0] in (None, self.expected)

    @invariant()
    def can_be_resumed(self):
        path = getattr(self, "folder", Path()) / "run.probi"
        if path.exists():
            assert probi.Summary.load(path).n_nodes <= self.n_nodes

    def teardown(self):
        if hasattr(self, "folder"):
            assert self.read(self.folder / "run.probi") == self.expected
            csv_file.BLOCK, base.MAX_ROWS = self.blocks
            shutil.rmtree(self.folder)


TestSummaries = Summaries.TestCase
TestSummaries.settings = STEPS
TestWindows = Windows.TestCase
TestWindows.settings = STEPS
TestCheckpoints = pytest.mark.slow(Checkpoints.TestCase)
# An interrupt between the opening of a file and its with leaves it to the garbage collector.
TestCheckpoints = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")(TestCheckpoints)
TestCheckpoints.settings = settings(examples(3), stateful_step_count=6)
