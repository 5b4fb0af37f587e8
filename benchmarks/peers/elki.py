"""ELKI (Debian's package elki, Java): UK-means and CK-means of uncertain objects, and representative clusterings."""

import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import ENVIRONMENTS

PACKAGES = ("elki", "libtrove3-java", "libbatik-java")
JARS = ("elki", "trove-3", "batik-all")
FOLDER = Path("/usr/share/java")
MAX_SECONDS = 120


def jars() -> Path | None:
    """Folder with ELKI's files, without the indexes that Java 17 refuses; None, where it cannot be had."""
    folder = ENVIRONMENTS / "elki"
    folder.mkdir(parents=True, exist_ok=True)
    source = FOLDER if (FOLDER / "elki.jar").exists() else _unpacked(folder)
    if shutil.which("java") is None or not (source / "elki.jar").exists():
        return None
    for name in JARS:
        made = folder / f"{name}.jar"
        if not made.is_file() and (source / f"{name}.jar").exists():
            with zipfile.ZipFile(source / f"{name}.jar") as old, zipfile.ZipFile(made, "w") as new:
                for entry in old.infolist():
                    if entry.filename != "META-INF/INDEX.LIST":
                        new.writestr(entry, old.read(entry))
    return folder


def _unpacked(folder: Path) -> Path:
    """Folder with the files of Debian's packages, unpacked where no administrator is needed."""
    java = folder / "root" / FOLDER.relative_to("/")
    if not (java / "elki.jar").exists() and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        subprocess.run(["apt-get", "download", *PACKAGES], cwd=folder, capture_output=True)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package.name, "root"], cwd=folder, capture_output=True)
    return java


def run(realizations: np.ndarray, algorithm: str, n_clusters: int, seed: int) -> dict[str, Any]:
    """Centers, ELKI's own running time, and peak memory, of nodes (n, m, d); its loader wants as many m for each."""
    options = ["-kmeans.k", str(n_clusters)] + (["-kmeans.seed", str(seed)] if algorithm == "CKMeans" else [])
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "out"
        measured, said = _run(realizations, algorithm, options, out, MAX_SECONDS)
        means = [_mean(file) for file in sorted(out.glob("cluster_*.txt"))] if out.is_dir() else []
    if not means:
        raise ValueError((said.strip().splitlines() or ["no output"])[-1])
    return measured | {"centers": [means], "data_mb": 0.0}


def representative_clusterings(realizations: np.ndarray, n_clusters: int, n_worlds: int, seed: int) -> dict[str, Any]:
    """Time and memory of k-medians in each of some possible worlds, and of five medoids of these clusterings."""
    options = ["-pwc.metaclustering", "kmeans.KMedoidsPAM", "-kmeans.k", "5"]
    options += ["-pwc.clustering", "kmeans.KMediansLloyd", "-kmeans.k", str(n_clusters)]
    options += ["-pwc.samples", str(n_worlds), "-pwc.random", str(seed)]
    with tempfile.TemporaryDirectory() as name:
        measured, said = _run(realizations, "RepresentativeUncertainClustering", options, Path(name) / "out", 3600)
    # It cannot write what it found (version 0.7.1), so only its time is known.
    if not measured["is_timed"]:
        raise ValueError((said.strip().splitlines() or ["no output"])[-1])
    return measured


def _run(
    realizations: np.ndarray, algorithm: str, options: list[str], out: Path, max_seconds: float
) -> tuple[dict[str, Any], str]:
    """Run an algorithm for uncertain objects: what was measured, and what it said."""
    folder = jars()
    if folder is None:
        raise ValueError("ELKI is not installed: Debian's packages elki and default-jre")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "nodes.txt"
        np.savetxt(path, realizations.reshape(len(realizations), -1), fmt="%.6g")
        command = [
            "java", "-Xmx8g", "-cp", f"{folder}/*", "de.lmu.ifi.dbs.elki.application.KDDCLIApplication",
            "-algorithm", f"clustering.uncertain.{algorithm}", "-dbc.in", str(path),
            "-dbc.filter", "typeconversions.UncertainSplitFilter",
            "-uncertain.dimensionality", str(realizations.shape[2]), *options, "-time", "-out", str(out),
        ]  # fmt: skip
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        watch = threading.Timer(max_seconds, process.kill)
        watch.start()
        said = process.stdout.read() if process.stdout else ""
        watch.cancel()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        whole = time.perf_counter() - start
    if whole >= max_seconds:
        raise ValueError(f"stopped after {max_seconds} seconds")
    found = re.search(rf"{algorithm}\.runtime: (\d+) ms", said)
    return {
        "seconds": int(found[1]) / 1e3 if found else whole,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1e3,
        "is_timed": found is not None,
    }, said


def _mean(path: Path) -> list[float]:
    with path.open() as file:
        for line in file:
            if line.startswith("# Cluster Mean:"):
                return [float(value) for value in line.partition(":")[2].split(",")]
    raise ValueError(f"{path.name} has no mean")
