"""ELKI's UK-means and CK-means (Debian's package elki, Java): clusterings of uncertain objects, the k-means way."""

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

JARS = ("elki", "trove-3", "batik-all")
FOLDER = Path("/usr/share/java")
MAX_SECONDS = 120


def jars() -> Path | None:
    """Folder with ELKI's files, without the indexes that Java 17 refuses; None, where it is not installed."""
    if shutil.which("java") is None or not (FOLDER / "elki.jar").exists():
        return None
    folder = ENVIRONMENTS / "elki"
    folder.mkdir(parents=True, exist_ok=True)
    for name in JARS:
        made = folder / f"{name}.jar"
        if not made.is_file() and (FOLDER / f"{name}.jar").exists():
            with zipfile.ZipFile(FOLDER / f"{name}.jar") as old, zipfile.ZipFile(made, "w") as new:
                for entry in old.infolist():
                    if entry.filename != "META-INF/INDEX.LIST":
                        new.writestr(entry, old.read(entry))
    return folder


def run(realizations: np.ndarray, algorithm: str, n_clusters: int, seed: int) -> dict[str, Any]:
    """Centers, ELKI's own running time, and peak memory, of nodes (n, m, d); its loader wants as many m for each."""
    folder = jars()
    if folder is None:
        raise ValueError("ELKI is not installed: Debian's packages elki and default-jre")
    with tempfile.TemporaryDirectory() as name:
        path, out = Path(name) / "nodes.txt", Path(name) / "out"
        np.savetxt(path, realizations.reshape(len(realizations), -1), fmt="%.6g")
        command = [
            "java", "-Xmx8g", "-cp", f"{folder}/*", "de.lmu.ifi.dbs.elki.application.KDDCLIApplication",
            "-algorithm", f"clustering.uncertain.{algorithm}", "-dbc.in", str(path),
            "-dbc.filter", "typeconversions.UncertainSplitFilter",
            "-uncertain.dimensionality", str(realizations.shape[2]), "-kmeans.k", str(n_clusters),
            "-time", "-out", str(out),
        ]  # fmt: skip
        command += ["-kmeans.seed", str(seed)] if algorithm == "CKMeans" else []
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        watch = threading.Timer(MAX_SECONDS, process.kill)
        watch.start()
        said = process.stdout.read() if process.stdout else ""
        watch.cancel()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        whole = time.perf_counter() - start
        if whole >= MAX_SECONDS:
            raise ValueError(f"stopped after {MAX_SECONDS} seconds")
        found = re.search(rf"{algorithm}\.runtime: (\d+) ms", said)
        means = [_mean(file) for file in sorted(out.glob("cluster_*.txt"))] if out.is_dir() else []
    if not means:
        raise ValueError((said.strip().splitlines() or ["no output"])[-1])
    seconds = int(found[1]) / 1e3 if found else whole
    return {"seconds": seconds, "centers": [means], "peak_mb": usage.ru_maxrss / 1e3, "data_mb": 0.0}


def _mean(path: Path) -> list[float]:
    with path.open() as file:
        for line in file:
            if line.startswith("# Cluster Mean:"):
                return [float(value) for value in line.partition(":")[2].split(",")]
    raise ValueError(f"{path.name} has no mean")
