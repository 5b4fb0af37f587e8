"""The field: other systems on the same data in the same run: time, memory, probabilistic cost of their centers."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import probi
from benchmarks import peers
from benchmarks.data import beijing_nodes, covertype_nodes, kddcup_nodes
from benchmarks.peers import elki
from experiments.datasets import ALL, GROUP
from experiments.records import Records

KEYS = ("data_set", "stand_in", "k", "peer")
VALUES = ("seconds", "cost", "excess", "peak_mb", "data_mb", "note")
RUNS = 3
MAX_SECONDS = 300
FOLDERS = re.compile(r"(?:/[^\s/:'\"]+)+/")
# What another system may do instead of an answer: all of it becomes a row that says so.
FAILURES = (subprocess.SubprocessError, ValueError, IndexError, OSError)


@dataclass(frozen=True)
class Peer:
    """One system. ``sees``: all realizations as points, the gravity center of each node, or the nodes themselves."""

    name: str
    sees: str
    model: str
    requirements: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    is_stream: bool = False
    about: str = ""


ALL_PEERS = (
    Peer("probi, default", "nodes", "stream", options=(("preset", "default"),), is_stream=True),
    Peer("probi, paper preset", "nodes", "stream", options=(("preset", "paper"),), is_stream=True),
    Peer("probi on all data", "nodes", "all", options=(("preset", "default"),)),
    Peer("P-LLOYD++ on all data", "nodes", "all", options=(("preset", "paper"),)),
    Peer("uniform sample + P-LLOYD++", "nodes", "uniform", options=(("preset", "paper"),)),
    Peer("BICO 0.1.5", "realizations", "bico", ("bico==0.1.5",), is_stream=True),
    Peer(
        "MiniBatchKMeans, one pass", "realizations", "minibatch_stream", ("scikit-learn",), (("batch", 50_000),), True
    ),
    # Draws batches from an array in memory until it does not improve; it need not see all points.
    Peer("MiniBatchKMeans", "realizations", "minibatch", ("scikit-learn",)),
    Peer("Birch", "realizations", "birch", ("scikit-learn",), (("threshold", 0.1),), is_stream=True),
    Peer("KMeans of gravity centers (UK-means)", "gravity", "kmeans", ("scikit-learn",)),
    Peer("ELKI UK-means", "equal nodes", "UKMeans"),
    Peer("ELKI CK-means", "equal nodes", "CKMeans"),
    Peer("kmedoids on 2,000 gravity centers", "gravity", "medoids", ("kmedoids", "scikit-learn"), (("sample", 2000),)),
)
SKIPPED = {
    "StreamKM++": "no package of it is to be had from PyPI or Debian; the figures of its authors are for another "
    "problem (k-means of points) on other machines, so there is nothing to put beside ours",
}


def data_sets(data: Path) -> dict[str, tuple[bool, int, Callable[[], probi.Nodes | None]]]:
    """Whether each is a stand-in, k, and how to get it."""
    tower = ALL["Tower"]
    return {
        "Covertype": (False, 20, lambda: covertype_nodes(data)),
        "Beijing": (False, 10, lambda: beijing_nodes(data)),
        "UJIIndoorLoc": (False, 20, lambda: uji_nodes(data)),
        "Otis": (False, 6, otis_nodes),
        "KDD Cup": (False, 20, lambda: kddcup_nodes(data)),
        "Tower": (True, 20, lambda: probi.Nodes.from_groups(tower.stand_in(0, tower.n_points), GROUP)),
    }


def otis_nodes() -> probi.Nodes:
    """Forecasts of hurricane Otis, kilometres on the sphere."""
    from probi.io.demo_data import otis_table
    from probi.io.transform import Transform

    nodes = probi.Nodes.from_table(otis_table(), "long", id=["init", "tau"], features=["lon", "lat"])
    return Transform(("lon", "lat"), ("lon", "lat")).nodes(nodes)


def uji_nodes(data: Path) -> probi.Nodes | None:
    """Places of UJIIndoorLoc: fingerprints of 520 access points; "not heard" is a weak signal."""
    path = data / "ujiindoorloc_train.parquet"
    if not path.is_file():
        return None
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    keys = ["BUILDINGID", "FLOOR", "SPACEID", "RELATIVEPOSITION"]
    table = table.sort_by([(name, "ascending") for name in keys])
    nodes = probi.Nodes.from_table(table, "long", id=keys, features=["WAP*"])
    return nodes.with_points(np.where(nodes.points == 100, -105, nodes.points))


def run(data: Path, records: Records, report: Any) -> None:
    """Every peer on every data set; one that fails is recorded with the reason."""
    for name, (stand_in, k, load) in data_sets(data).items():
        missing = [p for p in ALL_PEERS if not records.has(data_set=name, stand_in=stand_in, k=k, peer=p.name)]
        nodes = load() if missing else None
        if nodes is None:
            continue
        _, spreads = probi.one_medians(nodes, tol=1e-3)
        spread_cost = float(nodes.mass @ spreads)
        for peer in missing:
            report(f"peers: {name}, {peer.name}")
            try:
                found = run_peer(peer, nodes, k)
            except FAILURES as error:
                records.add(data_set=name, stand_in=stand_in, k=k, peer=peer.name, note=reason(error))
                continue
            cost = float(np.mean([probi.expected_cost(nodes, np.array(centers)) for centers in found["centers"]]))
            records.add(
                data_set=name, stand_in=stand_in, k=k, peer=peer.name, seconds=found["seconds"], cost=cost,
                excess=cost - spread_cost, peak_mb=found["peak_mb"], data_mb=found["data_mb"],
            )  # fmt: skip


def reason(error: Exception) -> str:
    """Why another system gave no answer: one line, in which no folder of this machine stands."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"took more than {error.timeout:.0f} seconds"
    text = str(error)
    if isinstance(error, subprocess.CalledProcessError):
        text = error.stderr or f"exit status {error.returncode}"
    lines = text.strip().splitlines() or [type(error).__name__]
    return FOLDERS.sub("", lines[-1])[:200]


def run_peer(peer: Peer, nodes: probi.Nodes, k: int, max_seconds: float = MAX_SECONDS, **more: Any) -> dict[str, Any]:
    """Seconds, centers of each run, and memory; one of FAILURES is raised where there are none."""
    options = dict(peer.options) | {"model": peer.model, "n_clusters": k, "runs": RUNS, "size": 200 * k} | more
    if peer.sees == "nodes":
        return _run_probi(nodes, options, max_seconds)
    if peer.sees == "equal nodes":
        return _run_elki(nodes, peer.model, k)
    points = nodes.points if peer.sees == "realizations" else nodes.gravity_centers
    return peers.run(python_of(peer), "run_points.py", points, timeout=max_seconds, **options)


def python_of(peer: Peer) -> Path:
    """Python of the peer's environment."""
    python = peers.environment(peer.model if peer.model == "medoids" else peer.requirements[0], list(peer.requirements))
    if python is None:
        raise ValueError("could not be installed")
    return python


def _run_elki(nodes: probi.Nodes, algorithm: str, k: int) -> dict[str, Any]:
    sizes = np.diff(nodes.offsets)
    if len(set(sizes.tolist())) > 1:
        raise ValueError("its loader takes only nodes with the same number of realizations")
    runs = [elki.run(nodes.points.reshape(len(nodes), sizes[0], -1), algorithm, k, seed) for seed in range(RUNS)]
    best = min(runs, key=lambda run: run["seconds"])
    return best | {"centers": [run["centers"][0] for run in runs]}


def _run_probi(nodes: probi.Nodes, options: dict[str, Any], max_seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nodes.npz"
        np.savez(path, points=nodes.points, probabilities=nodes.probabilities, offsets=nodes.offsets)
        command = [sys.executable, "-m", "benchmarks.peers.run_probi", str(path), json.dumps(options)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=max_seconds)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
