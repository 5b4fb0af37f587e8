"""Runs all systems in all settings; what is recorded is not done again, but for runs that gave no answer."""

import itertools
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

import probi
from benchmarks import peers
from experiments.field import noise, sets
from experiments.field.scores import agreement, calibration, partition_cost
from experiments.field.worker import load
from experiments.peers import reason
from experiments.records import Records

ROOT = Path(__file__).resolve().parents[2]
SYSTEMS = Path(__file__).parent / "systems"
SETTING = ("data", "kind", "level", "seed")
VALUES = ("n_clusters", "ari", "nmi", "cost", "seconds", "cpu_seconds", "peak_mb", "base_mb", "version", "note")
CONFIDENCE_VALUES = ("ece", "brier", "confidence", "right")
N_SEEDS = 5
MAX_SECONDS, MAX_START_SECONDS = 120.0, 600.0  # of an answer, and of the first, with imports and compilers
EVERY = 10  # settings per line of a log
# Each system has one core.
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Setting = tuple[str, str, str, int]


def settings(n_seeds: int = N_SEEDS) -> list[Setting]:
    """All settings, seed by seed, so that what is not finished is about equal for all."""
    return [
        (name, kind, level, seed)
        for seed, name, kind, level in itertools.product(range(n_seeds), sets.ALL, noise.KINDS, noise.LEVELS)
    ]


class Systems:
    """The systems of a file, and the process that runs them; it is started when it is first asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        module = load(str(path))
        self.names, self.requires = list(module.SYSTEMS), list(module.REQUIRES)
        self.process: subprocess.Popen[str] | None = None

    def ask(self, **request: Any) -> dict[str, Any]:
        """An answer of the worker; ValueError with the reason where there is none."""
        limit = MAX_SECONDS if self.process else MAX_START_SECONDS
        if self.process is None:
            self.process = self._started()
        if self.process.stdin is None or self.process.stdout is None:
            raise ValueError("no pipe")
        watch = threading.Timer(limit, self.process.kill)
        watch.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        is_late = not watch.is_alive()
        watch.cancel()
        if not line:
            self.close()
            raise ValueError(f"took more than {limit:.0f} seconds" if is_late else "its process ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer

    def _started(self) -> subprocess.Popen[str]:
        python = environment(self.path, self.requires)
        command = [str(python), str(Path(__file__).parent / "worker.py"), str(self.path)]
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | ONE_CORE | {"PYTHONPATH": paths},
        )  # fmt: skip

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def environment(path: Path, requires: list[str]) -> Path:
    """Python that has what a file of systems needs; this one, if that is nothing."""
    python = peers.environment(f"field-{path.stem}", requires) if requires else Path(sys.executable)
    if python is None:
        raise ValueError("could not be installed")
    return python.absolute()


class Field:
    """Files of systems, records, and where data is."""

    def __init__(self, data: Path, results: Path, files: list[Path]) -> None:
        self.data, self.files = data, files
        self.rows = Records(results / "field.csv", (*SETTING, "system"), VALUES)
        self.rows.drop_failed()  # a machine that stood still for two minutes says nothing about a system
        self.confidences = Records(
            results / "field_confidence.csv", (*SETTING, "system", "kind_of_confidence"), CONFIDENCE_VALUES
        )
        self.tried = Records(results / "field_systems.csv", ("system",), ("note",))
        self.lock = threading.Lock()
        self.points: dict[str, Any] = {name: one.points(data) for name, one in sets.ALL.items()}
        shapes = Records(results / "field_sets.csv", ("data",), ("n", "d", "k"))
        for name, made in self.points.items():
            if made is not None and not shapes.has(data=name):
                shapes.add(data=name, n=made[0].shape[0], d=made[0].shape[1], k=int(made[1].max()) + 1)

    def missing(self, systems: list[Systems], setting: Setting) -> list[tuple[Systems, str]]:
        """Systems without a record in a setting."""
        keys = dict(zip(SETTING, setting, strict=True))
        return [(one, name) for one in systems for name in one.names if not self.rows.has(**keys, system=name)]

    def started(self, report: Any = None) -> list[Systems]:
        """Systems that run at all; what cannot be installed is recorded with the reason, and tried again next time."""
        working = []
        for systems in map(Systems, self.files):
            note = self._tried(systems)
            if note:
                systems.close()
            else:
                working.append(systems)
            if report is not None:
                for name in systems.names:
                    if self.tried.rows.get((name,), {"note": None})["note"] != note:
                        self.tried.add(system=name, note=note)
                if note:
                    report(f"not run: {', '.join(systems.names)}: {note}")
        return working

    def _tried(self, systems: Systems) -> str:
        """Why a file of systems does not run, or nothing."""
        with tempfile.TemporaryDirectory() as folder:
            path = saved(Path(folder), noise.realizations("Gaussian", np.eye(8), "low", 0, "try"))
            try:
                systems.ask(system=systems.names[0], path=path, k=2, seed=0)
            except ValueError as error:
                return reason(error)
        return ""

    def fill(self, systems: list[Systems], setting: Setting) -> None:
        """Run what is missing in a setting."""
        name, kind, level, seed = setting
        wanted = self.missing(systems, setting)
        if not wanted:
            return
        X, classes = self.points[name]
        parts = noise.realizations(kind, X, level, seed, name)
        nodes, keys = probi.Nodes(*parts), dict(zip(SETTING, setting, strict=True))
        with tempfile.TemporaryDirectory() as folder:
            path = saved(Path(folder), parts)
            for one, system in wanted:
                try:
                    answer = one.ask(system=system, path=path, k=int(classes.max()) + 1, seed=seed)
                    row, confidences = judged(nodes, classes, answer)
                except ValueError as error:
                    row, confidences = {"note": reason(error)}, {}
                with self.lock:
                    for confidence, values in confidences.items():
                        self.confidences.add(**keys, system=system, kind_of_confidence=confidence, **values)
                    self.rows.add(**keys, system=system, **row)


def saved(folder: Path, parts: noise.Realizations) -> str:
    """Path of a file with realizations."""
    path = folder / "objects.npz"
    np.savez(path, points=parts[0], probabilities=parts[1], offsets=parts[2])
    return str(path)


def judged(nodes: probi.Nodes, classes: Any, answer: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values of a row, and of its confidences; a cost only for at most as many clusters as there are classes."""
    labels = np.array(answer["labels"])
    if labels.shape != classes.shape:
        raise ValueError(f"{labels.shape} labels of {len(classes)} objects")
    n_clusters = len(np.unique(labels[labels >= 0]))
    row = agreement(labels, classes) | {name: answer[name] for name in VALUES if name in answer}
    row |= {"n_clusters": n_clusters, "cost": None}
    if 1 <= n_clusters <= classes.max() + 1:
        row["cost"] = partition_cost(nodes, labels)
    confidences = {
        name: calibration(np.array(values, float), labels, classes) for name, values in answer["confidences"].items()
    }
    return row, confidences


def run(data: Path, results: Path, n_seeds: int, more: list[Path], report: Any, jobs: int = 1) -> None:
    """Fill what is missing, with as many processes of each kind as jobs."""
    field = Field(data, results, [*sorted(SYSTEMS.glob("*.py")), *more])
    lanes = [field.started(report)]
    for name, made in field.points.items():
        if made is None:
            report(f"not run: {name}: no file of it in the folder of --data")
    todo = [one for one in settings(n_seeds) if field.points[one[0]] is not None and field.missing(lanes[0], one)]
    lanes += [field.started() for _ in range(jobs - 1)]
    free: queue.Queue[list[Systems]] = queue.Queue()
    for lane in lanes:
        free.put(lane)

    def fill(setting: Setting) -> None:
        lane = free.get()
        try:
            field.fill(lane, setting)
        finally:
            free.put(lane)

    threads = ThreadPoolExecutor(jobs)
    try:
        for _ in _with_progress(threads.map(fill, todo), len(todo), report):
            pass
    finally:
        threads.shutdown(cancel_futures=True)
        for one in itertools.chain(*lanes):
            one.close()


def _with_progress(steps: Iterator[None], n: int, report: Any) -> Iterator[None]:
    """A bar on a terminal, a line now and then elsewhere."""
    if sys.stderr.isatty():
        columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            yield from bar.track(steps, total=n, description="settings")
        return
    for i, step in enumerate(steps, 1):
        if i % EVERY == 0 or i == n:
            report(f"field: {i} of {n} settings")
        yield step
