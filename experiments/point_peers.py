"""Systems for plain points beside probi in one run: k-means by seconds and by both costs, coreax by distortion."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import probi
from benchmarks import peers as environments
from benchmarks import shapes
from benchmarks.common import best_of
from experiments import peers
from experiments.load import OtherLoad
from experiments.peers import FAILURES, Peer, reason
from experiments.quality import distortion, uniform_sample
from experiments.records import Records

KEYS = ("data_set", "k", "peer")
VALUES = ("n", "d", "seconds", "cost", "squares", "runs", "other_cores", "note")
CORESET_KEYS = ("data_set", "k", "peer")
CORESET_VALUES = ("n", "d", "size", "seconds", "found", "at_random", "other_cores", "note")

OURS = "probi"
MAX_SECONDS = 40  # for all runs of a system on a data set, loading included
MAX_TOTAL_SECONDS = 3  # no further run starts after that
MAX_ITERATIONS = 100
BLOCK = 1 << 14

FAISS = ("faiss-cpu==1.15.1",)
SUPERKMEANS = ("superkmeans==0.2.0",)
PROBI = Peer(OURS, "nodes", "stream", options=(("preset", "default"),), about="one pass, then a solution; nodes")
PROBI_ON_POINTS = Peer(
    f"{OURS}, gravity centers", "nodes", "stream", options=(("preset", "default"),),
    about="the same for the points that the others see",
)  # fmt: skip
POINT_PEERS = (
    PROBI_ON_POINTS,
    Peer("faiss", "gravity", "faiss", FAISS, about="25 iterations on at most 256 points per center, its default"),
    Peer("faiss, all points", "gravity", "faiss_all", FAISS, about="25 iterations on all points"),
    Peer(
        "scikit-learn-intelex", "gravity", "intelex", ("scikit-learn-intelex==2026.2.0",), about="`KMeans`, one start"
    ),
    Peer(
        "mlpack, Hamerly", "gravity", "mlpack", ("mlpack==4.8.0",), (("max_iterations", MAX_ITERATIONS),),
        about=f"k-means++, then at most {MAX_ITERATIONS} iterations",
    ),
    Peer("FLSpp", "gravity", "flspp", ("flspp==0.1.9",), about="20 local search steps, at most 100 iterations"),
    Peer(
        "superkmeans", "gravity", "superkmeans", SUPERKMEANS,
        about="its default: a sample, two levels above 100,000 points",
    ),
    Peer("superkmeans, all points", "gravity", "superkmeans_all", SUPERKMEANS, about="one level, 10 iterations"),
    Peer("scikit-learn KMeans", "gravity", "kmeans_once", ("scikit-learn",), about="one start"),
    Peer("scikit-learn MiniBatchKMeans", "gravity", "minibatch_once", ("scikit-learn",), about="one start"),
)  # fmt: skip

COREAX = ("coreax==1.0.0",)
HERDING = "squared exponential kernel, its width by coreax's median heuristic"
CORESET_PEERS = (
    Peer("coreax, kernel herding", "points", "herding", COREAX, about=f"{HERDING}; equal weights"),
    Peer(
        "coreax, weighted herding", "points", "herding_weighted", COREAX, about=f"{HERDING}; weights by its MMD solver"
    ),
)
CORESET_K = 10
CORESET_POINTS = 20_000  # herding compares all pairs of points
WIDE_POINTS, WIDE = 10_000, 100  # as many where points have more than so many features
CORESET_DATA = ("Covertype", "Beijing", "Mixture", "Embeddings")
UNIFORM = "uniform sample"
N_RANDOM = 5

Loader = Callable[[], probi.Nodes | None]


def data_sets(data: Path) -> dict[str, tuple[int, Loader]]:
    """Number of clusters, and how to get the nodes: those of the other peers, then many clusters and many features."""
    known: dict[str, tuple[int, Loader]] = {name: (k, load) for name, (_, k, load) in peers.data_sets(data).items()}
    return known | {
        "Mixture": (500, lambda: probi.Nodes.from_points(shapes.mixture())),
        "Embeddings": (100, lambda: probi.Nodes.from_points(shapes.embeddings())),
    }


def as_points(nodes: probi.Nodes) -> np.ndarray:
    """What systems for points see of nodes: the center of gravity of each, in the precision of the data."""
    return np.ascontiguousarray(nodes.gravity_centers, nodes.points.dtype)


def run(data: Path, records: Records, report: Any) -> None:
    """Every system on every data set, what is missing; one that fails is recorded with the reason."""
    for name, (k, load) in data_sets(data).items():
        missing = [peer for peer in (PROBI, *POINT_PEERS) if not records.has(data_set=name, k=k, peer=peer.name)]
        nodes = load() if missing else None
        if nodes is None:
            continue
        points = probi.Nodes.from_points(as_points(nodes))
        for peer in missing:
            if peer is PROBI_ON_POINTS and nodes.is_certain:
                continue  # they see the same
            report(f"points: {name}, {peer.name}")
            row = measure(peer, nodes, points, k)
            records.add(data_set=name, k=k, peer=peer.name, n=len(nodes), d=nodes.n_features, **row)


def measure(peer: Peer, nodes: probi.Nodes, points: probi.Nodes, k: int) -> dict[str, Any]:
    """Seconds, both costs on all data, and how busy the machine was; or only why there are none."""
    seen = nodes if peer is PROBI else points
    load = OtherLoad()
    try:
        found = peers.run_peer(
            peer, seen, k, MAX_SECONDS, batch=len(seen), runs=peers.RUNS, max_total_seconds=MAX_TOTAL_SECONDS
        )
        busy = load.cores()
        centers = [np.array(some, np.float64) for some in found["centers"]]
        cost = float(np.mean([probi.expected_cost(nodes, some) for some in centers]))
        squares = float(np.mean([squared_cost(points.points, some) for some in centers]))
    except FAILURES as error:
        return {"other_cores": load.cores(), "note": reason(error)}
    return {
        "seconds": found["seconds"], "cost": cost, "squares": squares, "runs": len(centers), "other_cores": busy,
    }  # fmt: skip


def squared_cost(points: np.ndarray, centers: np.ndarray) -> float:
    """Sum of squared distances of points (n, d) to their nearest centers (k, d): what k-means minimises."""
    total, squared_lengths = 0.0, (centers**2).sum(axis=1)
    for start in range(0, len(points), BLOCK):
        some = points[start : start + BLOCK].astype(np.float64)
        # The product only chooses the center: a sum of its differences would lose digits far from the origin.
        nearest = np.argmin(squared_lengths - 2 * (some @ centers.T), axis=1)
        total += float(((some - centers[nearest]) ** 2).sum())
    return total


# -- coresets ---------------------------------------------------------------------------------------------------------


def coreset_points(data: Path) -> dict[str, Callable[[], np.ndarray | None]]:
    """Points of some of the data sets, drawn at random where there are too many for herding."""
    loaders = data_sets(data)

    def sample(name: str) -> np.ndarray | None:
        nodes = loaders[name][1]()
        if nodes is None:
            return None
        points = as_points(nodes)
        size = min(len(points), WIDE_POINTS if points.shape[1] > WIDE else CORESET_POINTS)
        return points[np.sort(np.random.default_rng(0).choice(len(points), size, replace=False))]

    return {name: partial(sample, name) for name in CORESET_DATA}


def run_coresets(data: Path, records: Records, report: Any) -> None:
    """Coresets of the same size by probi, by chance and by coreax: seconds, and distortion for fixed centers."""
    names = (OURS, UNIFORM, *(peer.name for peer in CORESET_PEERS))
    for name, load in coreset_points(data).items():
        missing = [peer for peer in names if not records.has(data_set=name, k=CORESET_K, peer=peer)]
        points = load() if missing else None
        if points is None:
            continue
        nodes = probi.Nodes.from_points(points)
        fixed = _fixed_centers(nodes)
        size = len(_summarised(nodes))
        for peer in missing:
            report(f"coresets: {name}, {peer}")
            load_of_others = OtherLoad()
            row = _coreset_row(peer, nodes, size, fixed)
            records.add(
                data_set=name, k=CORESET_K, peer=peer, n=len(nodes), d=nodes.n_features, size=size,
                other_cores=load_of_others.cores(), **row,
            )  # fmt: skip


def _summarised(nodes: probi.Nodes) -> probi.Nodes:
    summary = probi.Summary(CORESET_K, random_state=0)
    summary.update(nodes)
    return summary.coreset()


def _fixed_centers(nodes: probi.Nodes) -> dict[str, list[tuple[np.ndarray, float]]]:
    """Centers that probi finds on all points, and sets of points drawn at random, each with its cost on all points."""
    rng = np.random.default_rng(0)
    found = [probi.solve(nodes, CORESET_K, random_state=0).centers]
    at_random = [nodes.points[rng.choice(len(nodes), CORESET_K, replace=False)] for _ in range(N_RANDOM)]
    sets = {"found": found, "at_random": at_random}
    return {kind: [(c, probi.expected_cost(nodes, c)) for c in some] for kind, some in sets.items()}


def _coreset_row(peer: str, nodes: probi.Nodes, size: int, fixed: dict[str, Any]) -> dict[str, Any]:
    try:
        seconds, made = _coreset(peer, nodes, size)
    except FAILURES as error:
        return {"note": reason(error)}
    return {"seconds": seconds} | {kind: distortion(made, centers) for kind, centers in fixed.items()}


def _coreset(peer: str, nodes: probi.Nodes, size: int) -> tuple[float, probi.Nodes]:
    if peer == OURS:
        return best_of(peers.RUNS, lambda: _summarised(nodes))
    if peer == UNIFORM:
        return best_of(peers.RUNS, lambda: uniform_sample(nodes, size, seed=0))
    chosen = next(one for one in CORESET_PEERS if one.name == peer)
    found = environments.run(
        peers.python_of(chosen),
        "run_coreax.py",
        nodes.points,
        timeout=MAX_SECONDS,
        model=chosen.model,
        size=size,
        runs=1,
    )
    return found["seconds"], nodes.take(np.array(found["rows"])).with_weights(np.array(found["weights"]))
