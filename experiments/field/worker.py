"""Runs the systems of one file, in the environment that they need; knows nothing but NumPy.

``python worker.py systems/name.py`` reads a request per line as JSON: the path of the objects (NPZ), the name of the
system, the number of clusters and a seed. It answers each with a line of JSON: labels, confidences and what it took.
"""

import functools
import importlib.metadata
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


class Objects:
    """Uncertain objects: object i has the realizations ``points[offsets[i]:offsets[i + 1]]``."""

    def __init__(self, points: Any, probabilities: Any, offsets: Any) -> None:
        self.points, self.probabilities, self.offsets = points, probabilities, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @functools.cached_property
    def owners(self) -> Any:
        """The object of each realization."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @functools.cached_property
    def shares(self) -> Any:
        """Probability of each realization, given that its object is present."""
        return self.probabilities / np.add.reduceat(self.probabilities, self.offsets[:-1])[self.owners]

    @functools.cached_property
    def means(self) -> Any:
        """Expected place of each object, given that it is present."""
        return np.add.reduceat(self.points * self.shares[:, None], self.offsets[:-1])

    def vote(self, labels: Any) -> tuple[Any, dict[str, Any]]:
        """The most probable label of each object, of labels of its realizations, and how probable that is."""
        votes = np.zeros((len(self), labels.max() + 1))
        np.add.at(votes, (self.owners, labels), self.shares)
        return votes.argmax(axis=1), {"share": votes.max(axis=1)}


def load(path: str) -> Any:
    """The module of a file of systems."""
    spec = importlib.util.spec_from_file_location(f"system_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def warm_up() -> Objects:
    """A few objects of two groups, on which imports and compilers are done."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(180, 4)) + 9.0 * (np.arange(180) // 3 % 2)[:, None]
    return Objects(points, np.full(180, 1 / 3), np.arange(0, 181, 3))


def version(package: str) -> str:
    """A package with its version; what is no package of Python says it by itself."""
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return package


def memory(name: str) -> float:
    """A line of the process's status, in megabytes; 0 where the system has none."""
    path = Path("/proc/self/status")
    lines = path.read_text().splitlines() if path.is_file() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024 / 1e6


def forget_peak() -> None:
    """Linux starts the peak of the memory again."""
    path = Path("/proc/self/clear_refs")
    if path.exists():
        path.write_text("5")


class Worker:
    """Systems of a file, which have been warmed up, and the objects of the last request."""

    def __init__(self, path: str) -> None:
        self.module, self.warm, self.path, self.objects = load(path), set[str](), "", None

    def prepare(self, objects: Objects) -> Any:
        """Objects as the systems of this file want them."""
        return self.module.prepare(objects) if hasattr(self.module, "prepare") else objects

    def read(self, path: str) -> Any:
        """Objects of a file, prepared once for all systems."""
        if path != self.path:
            with np.load(path) as parts:
                objects = Objects(parts["points"], parts["probabilities"], parts["offsets"])
            self.path, self.objects = path, self.prepare(objects)
        return self.objects

    def answer(self, system: str, path: str, k: int, seed: int) -> dict[str, Any]:
        """Labels, confidences, seconds and memory of a system."""
        run = self.module.SYSTEMS[system]
        if system not in self.warm:
            run(self.prepare(warm_up()), 2, 0)
            self.warm.add(system)
        return measured(run, self.read(path), k, seed) | {"version": version(self.module.VERSION)}


def measured(run: Any, prepared: Any, k: int, seed: int) -> dict[str, Any]:
    """Run a system; what it took is known before its confidences are computed."""
    forget_peak()
    base = memory("VmRSS")
    start, cpu_start = time.perf_counter(), time.process_time()
    labels = run(prepared, k, seed)
    took = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu_start}
    labels, confidences = labels if isinstance(labels, tuple) else (labels, {})
    return took | {
        "labels": np.asarray(labels).tolist(),
        "peak_mb": memory("VmHWM"),
        "base_mb": base,
        "confidences": {
            name: np.asarray(values() if callable(values) else values).tolist() for name, values in confidences.items()
        },
    }


def main() -> None:
    # What libraries print must not stand between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(sys.argv[1])
    for line in sys.stdin:
        try:
            said = worker.answer(**json.loads(line))
        except Exception as error:  # the answer of a system that fails
            said = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(said) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
