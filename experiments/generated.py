"""Generated nodes with a truth that is known: clusters in some number, no structure at all, planted outliers."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import probi

Make = Callable[[], tuple[probi.Nodes, int]]
Floats = Any


def groups(
    rng: np.random.Generator, sizes: Any, d: int = 2, gap: float = 8.0, noise: str = "normal", scales: Any = 1.0
) -> Floats:
    """Points around places that are at least a gap apart, in units of the standard deviation of a feature."""
    k, places, width = len(sizes), np.empty((0, d)), gap / np.sqrt(d)
    while len(places) < k:
        place = rng.uniform(-width, width, d)
        if (np.linalg.norm(places - place, axis=1) >= gap).all():
            places = np.vstack([places, place])
        width *= 1.02
    of_group = np.repeat(np.arange(k), sizes)
    return places[of_group] + NOISE[noise](rng, (sum(sizes), d)) * np.broadcast_to(scales, k)[of_group, None]


# Around a place: standard deviation 1 per feature, but for Student's t, whose tails are heavier than that says.
NOISE: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "t3": lambda rng, shape: rng.normal(size=shape) / np.sqrt(rng.chisquare(3, (shape[0], 1)) / 3),
    "Laplace": lambda rng, shape: rng.laplace(size=shape) / np.sqrt(2),
    "skewed": lambda rng, shape: rng.gamma(2.0, size=shape) / np.sqrt(2),
}


def measured(
    rng: np.random.Generator, points: Floats, error: float, n_readings: int = 5, ids: Any = None
) -> probi.Nodes:
    """Nodes of repeated readings; certain ones without an error."""
    if error == 0.0:
        return probi.Nodes.from_points(points, ids=ids)
    noise = rng.normal(size=(len(points), n_readings, points.shape[1]))
    return probi.Nodes.from_dense(points[:, None] + error * noise, ids=ids)


# -- kinds of clusters ------------------------------------------------------------------------------------------------

CLUSTERED: dict[str, Callable[[np.random.Generator], tuple[probi.Nodes, int]]] = {
    "2, overlapping, 5 features": lambda rng: (measured(rng, groups(rng, [500] * 2, 5, 4.0), 0.0), 2),
    "3, readings with errors": lambda rng: (measured(rng, groups(rng, [300] * 3), 1.0), 3),
    "4, overlapping": lambda rng: (measured(rng, groups(rng, [400] * 4, gap=4.0), 0.0), 4),
    "5, unbalanced 60 % to 5 %": lambda rng: (measured(rng, groups(rng, [900, 300, 150, 75, 75]), 0.0), 5),
    "6, Student t": lambda rng: (measured(rng, groups(rng, [250] * 6, gap=9.0, noise="t3"), 0.0), 6),
    "8, different scales": lambda rng: (
        measured(rng, groups(rng, [200] * 8, 3, scales=np.linspace(0.2, 1.0, 8)), 0.0),
        8,
    ),
    "10, readings, 10 features": lambda rng: (measured(rng, groups(rng, [150] * 10, 10, 7.0), 1.0), 10),
    "12, overlapping": lambda rng: (measured(rng, groups(rng, [200] * 12, gap=5.0), 0.0), 12),
}
STRUCTURELESS: dict[str, Callable[[np.random.Generator], tuple[probi.Nodes, int]]] = {
    "none, uniform": lambda rng: (measured(rng, rng.uniform(size=(1500, 2)), 0.0), 0),
    "none, Gaussian": lambda rng: (measured(rng, rng.normal(size=(1500, 3)), 0.5), 0),
}
# Groups of kinds, in the order of the page; the last two are drawn at random, by a seed that no rule was tried on.
KINDS, DRAWN, DRAWN_NONE = "ten kinds", "drawn, with clusters", "drawn, without"
N_DRAWN, DRAWN_SEED = 24, 3142


def all_kinds(n_seeds: int) -> Iterator[tuple[tuple[str, str, int], Make]]:
    """Group, kind and seed of each data set, and how to make it."""
    for kind, make in {**CLUSTERED, **STRUCTURELESS}.items():
        for seed in range(n_seeds):
            yield (KINDS, kind, seed), lambda make=make, seed=seed: make(np.random.default_rng([7, seed]))
    for number in range(N_DRAWN):
        setting = _drawn_setting(np.random.default_rng([DRAWN_SEED, number]))
        yield (DRAWN, f"drawn {number}: {said(setting)}", number), lambda s=setting, i=number: _drawn(s, i)
    for number in range(N_DRAWN // 2):
        setting = _drawn_setting(np.random.default_rng([DRAWN_SEED + 1, number])) | {"k": 1, "is_balanced": True}
        yield (DRAWN_NONE, f"none {number}: {said(setting)}", number), lambda s=setting, i=number: _drawn(s, i)


def _drawn_setting(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "k": int(rng.integers(2, 13)),
        "d": int(rng.choice([2, 3, 5, 10, 20, 50])),
        "per_group": int(rng.choice([50, 100, 200, 400])),
        "gap": float(rng.choice([4.0, 5.0, 6.0, 8.0, 12.0])),
        "noise": str(rng.choice(list(NOISE))),
        "is_balanced": bool(rng.random() < 0.5),
        "error": float(rng.choice([0.0, 0.0, 0.5, 1.0])),
    }


def said(setting: dict[str, Any]) -> str:
    """A setting in words."""
    shape = (
        "" if setting["k"] == 1 else f", gap {setting['gap']:g}" + ("" if setting["is_balanced"] else ", unbalanced")
    )
    error = f", error {setting['error']:g}" if setting["error"] else ""
    return f"{setting['k']} of {setting['per_group']} in {setting['d']}-d, {setting['noise']}{shape}{error}"


def _drawn(setting: dict[str, Any], number: int) -> tuple[probi.Nodes, int]:
    """Nodes whose ids are the numbers of their groups, and how many clusters there are."""
    rng = np.random.default_rng([DRAWN_SEED + 2, setting["k"], number])
    k, n = setting["k"], setting["k"] * setting["per_group"] * (5 if setting["k"] == 1 else 1)
    shares = (
        np.full(k, 1.0 / k) if setting["is_balanced"] else np.geomspace(1.0, 0.1, k) / np.geomspace(1.0, 0.1, k).sum()
    )
    sizes = np.maximum((n * shares).astype(int), 30)
    points = groups(rng, sizes, setting["d"], setting["gap"], setting["noise"])
    nodes = measured(rng, points, setting["error"], ids=np.repeat(np.arange(k), sizes))
    return nodes, k if k > 1 else 0


# -- outliers ---------------------------------------------------------------------------------------------------------

N_GROUPS = 5
PLANTED = ("far away", "all in one place", "between clusters")


def with_outliers(planted: str, n: int, share: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Gaussian clusters with standard deviation 1, 12 apart, and outliers; the points, and which are outliers."""
    places = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, 12.0], [12.0, 12.0], [24.0, 0.0]])
    n_out = int(share * n)
    inside = places[rng.integers(N_GROUPS, size=n - n_out)] + rng.normal(size=(n - n_out, 2))
    if planted == "far away":
        angle, radius = rng.uniform(0, 2 * np.pi, n_out), rng.uniform(60.0, 200.0, n_out)
        outside = np.column_stack([np.cos(angle), np.sin(angle)]) * radius[:, None]
    elif planted == "all in one place":
        outside = 200.0 + rng.normal(size=(n_out, 2))
    else:
        drawn = rng.uniform([-6.0, -6.0], [30.0, 18.0], (40 * n_out, 2))
        outside = drawn[(np.linalg.norm(drawn[:, None] - places, axis=2) >= 5.0).all(axis=1)][:n_out]
    order = rng.permutation(n)
    return np.vstack([inside, outside])[order], (np.arange(n) >= n - n_out)[order]
