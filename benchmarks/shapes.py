"""Shapes of data away from the paper's: many clusters, many features, small data; each row in one run with a peer."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import probi
from benchmarks.common import best_of, peak_megabytes
from benchmarks.data import covertype
from probi import _parallel

RUNS = 3


def main(data: Path) -> None:
    one_pass(data)
    many_clusters()
    growth_with_k()
    many_features()
    threads()
    small()


def mixture(n: int = 600_000, d: int = 10) -> np.ndarray:
    """Clusters of very different sizes and widths that overlap; more of them than centers."""
    rng = np.random.default_rng(0)
    shares = rng.pareto(1.5, 800) + 0.2
    labels = rng.choice(800, n, p=shares / shares.sum())
    return 5.0 * rng.normal(size=(800, d))[labels] + rng.gamma(2.0, 0.5, 800)[labels, None] * rng.normal(size=(n, d))


def structureless(n: int = 600_000, d: int = 10) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d))


def heavy_tailed(n: int = 600_000, d: int = 10) -> np.ndarray:
    return np.random.default_rng(0).standard_t(2, size=(n, d))


def embeddings(n: int = 60_000, d: int = 768) -> np.ndarray:
    """Vectors of unit length: topics of different sizes, a common subspace, and noise."""
    rng = np.random.default_rng(0)
    shares = rng.pareto(1.5, 120) + 0.2
    labels = rng.choice(120, n, p=shares / shares.sum())
    common = rng.normal(size=(40, d)) * np.linspace(1.0, 0.025, 40)[:, None]
    X = np.float32(0.55) * rng.normal(size=(120, d)).astype(np.float32)[labels]
    X += np.float32(0.35) * (rng.normal(size=(n, 40)) @ common).astype(np.float32)
    X += np.float32(0.6) * rng.standard_normal((n, d), np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def summarised(X: np.ndarray, k: int) -> probi.Summary:
    summary = probi.Summary(k, random_state=0)
    summary.update(probi.Nodes.from_points(X))
    summary.coreset()
    return summary


def compile_for(X: np.ndarray) -> None:
    summary = summarised(X[:20_000], 40)
    probi.solve(summary, 40, random_state=0)


def one_pass(data: Path, k: int = 20, batch: int = 50_000) -> None:
    """Groups of ten rows of Covertype, summarised and solved, against one pass of MiniBatchKMeans over the rows."""
    from sklearn.cluster import MiniBatchKMeans

    X = covertype(data)
    if X is None:
        return

    def theirs() -> np.ndarray:
        model = MiniBatchKMeans(k, n_init=3, random_state=0)
        for start in range(0, len(X), batch):
            model.partial_fit(X[start : start + batch])
        return model.cluster_centers_.astype(float)

    def ours() -> np.ndarray:
        summary = probi.Summary(k, random_state=0)
        summary.update(probi.Nodes.from_groups(X))
        return probi.solve(summary, k, random_state=0).centers

    ours()  # compiles
    (our_seconds, centers), (their_seconds, peer) = best_of(RUNS, ours), best_of(RUNS, theirs)
    nodes = probi.Nodes.from_groups(X)
    ratio = probi.expected_cost(nodes, centers) / probi.expected_cost(nodes, peer)
    print(f"Covertype in groups of 10, k = {k}: pass and solve against one pass of MiniBatchKMeans")
    print(f"{our_seconds:.3f} / {their_seconds:.3f} s = {our_seconds / their_seconds:.2f}; cost / its {ratio:.4f}\n")


def many_clusters() -> None:
    from sklearn.cluster import MiniBatchKMeans

    print("600,000 x 10 points, k = 500: seconds, best of runs; cost on all points")
    print(f"{'data':<14} {'pass':>6} {'solve':>6} {'solve / pass':>13} {'MiniBatchKMeans':>16} {'cost / its':>11}")
    for make in (mixture, structureless, heavy_tailed):
        X = make()
        compile_for(X)
        read, summary = best_of(RUNS, lambda X=X: summarised(X, 500))
        solved, result = best_of(RUNS, lambda s=summary: probi.solve(s, 500, random_state=0))
        theirs, peer = best_of(1, lambda X=X: MiniBatchKMeans(500, n_init=1, random_state=0).fit(X))
        ratio = probi.expected_cost(X, result.centers) / probi.expected_cost(X, peer.cluster_centers_)
        print(
            f"{make.__name__:<14} {read:>6.2f} {solved:>6.2f} {solved / read:>13.2f} {theirs:>16.1f} {ratio:>11.4f}",
            flush=True,
        )


def growth_with_k() -> None:
    print("\nsolve of the same points for several k: seconds, and the exponent of a power of k")
    for make in (mixture, structureless):
        X = make()
        compile_for(X)
        ks = (100, 200, 500, 1000)
        seconds = []
        for k in ks:
            summary = summarised(X, k)
            seconds.append(best_of(2, lambda s=summary, k=k: probi.solve(s, k, random_state=0))[0])
        exponent = np.polyfit(np.log(ks), np.log(seconds), 1)[0]
        rows = ", ".join(f"k = {k}: {s:.2f}" for k, s in zip(ks, seconds, strict=True))
        print(f"{make.__name__:<14} {rows}; k^{exponent:.2f}", flush=True)


def many_features() -> None:
    """Time, cost, and, in a process of its own, memory."""
    from sklearn.cluster import KMeans

    X = embeddings()
    compile_for(X)
    theirs, peer = best_of(1, lambda: KMeans(100, n_init=1, random_state=0).fit(X))
    cost = probi.expected_cost(X, peer.cluster_centers_.astype(float))
    print("\n60,000 x 768 float32 of unit length, k = 100: against KMeans(n_init=1)")
    ours = {
        "summary and solve": lambda: probi.solve(summarised(X, 100), 100, random_state=0).centers,
        "PROBI.fit": lambda: probi.PROBI(100, random_state=0).fit(X).cluster_centers_,
    }
    for name, run in ours.items():
        seconds, centers = best_of(RUNS, run)
        ratio = probi.expected_cost(X, centers) / cost
        print(f"{name}: {seconds:.2f} / {theirs:.2f} s = {seconds / theirs:.2f}; cost / its {ratio:.4f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/X.npy", X)
        code = "import sys; from benchmarks import shapes; shapes.memory_beyond(sys.argv[1])"
        subprocess.run([sys.executable, "-c", code, f"{folder}/X.npy"], check=True)


def memory_beyond(path: str) -> None:
    X = np.load(path)
    compile_for(X[:3000])
    before = peak_megabytes()
    probi.solve(summarised(X, 100), 100, random_state=0)
    print(f"memory beyond the data: {peak_megabytes() - before:.0f} MB", flush=True)


def threads() -> None:
    nodes = probi.Nodes.from_dense(np.random.default_rng(0).normal(size=(1_000_000, 10, 10)).astype(np.float32))
    print("\none thread / two threads: summary of 1,000,000 x 10 x 10, k = 20, and its solution")
    seconds = {}
    for n_threads in (1, 2):
        with _parallel.limited(n_threads):
            read, summary = best_of(RUNS, lambda: _summarised_nodes(nodes))
            solved, _ = best_of(RUNS, lambda s=summary: probi.solve(s, 20, random_state=0))
            seconds[n_threads] = (read, solved)
    for i, name in enumerate(("summary", "solve")):
        one, two = seconds[1][i], seconds[2][i]
        print(f"{name:<8} {one:.2f} / {two:.2f} s = {one / two:.2f}", flush=True)


def _summarised_nodes(nodes: probi.Nodes) -> probi.Summary:
    summary = probi.Summary(20, random_state=0)
    summary.update(nodes)
    summary.coreset()
    return summary


def small() -> None:
    from sklearn.cluster import KMeans

    X = np.random.default_rng(0).normal(size=(200, 2))
    X[:100] += 5.0
    print("\nsmall data, 10 starts each: milliseconds, best of 20")
    for name, nodes, k in (("200 points", probi.Nodes.from_points(X), 3), ("hurricane Otis, 799 nodes", otis(), 6)):
        ours, _ = best_of(20, lambda nodes=nodes, k=k: probi.solve(nodes, k, random_state=0))
        medians = nodes.gravity_centers
        theirs, _ = best_of(20, lambda rows=medians, k=k: KMeans(k, n_init=10, random_state=0).fit(rows))
        print(f"{name}, k = {k}: {1e3 * ours:.1f}; KMeans of the means {1e3 * theirs:.1f}", flush=True)


def otis() -> probi.Nodes:
    from probi import io
    from probi.io.demo_data import otis_table
    from probi.io.write import write_table

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "otis.parquet"
        write_table(path, otis_table())
        return probi.Nodes.concat(list(io.read(path, layout="long", id=["init", "tau"], lonlat=("lon", "lat"))))
