"""probi itself: as it comes, with the settings of the paper, and with outliers."""

from typing import Any

import probi

REQUIRES: list[str] = []  # the environment of the experiments
VERSION = "probi"
OUTLIERS = 0.05
N_WORLDS = 50


def prepare(objects: Any) -> probi.Nodes:
    """Nodes of the objects."""
    return probi.Nodes(objects.points, objects.probabilities, objects.offsets)


def default(nodes: probi.Nodes, k: int, seed: int) -> Any:
    """As it comes; both confidences are computed after the clock."""
    model = probi.PROBI(k, random_state=seed, n_jobs=1).fit(nodes)
    labels, centers = model.predict(nodes), model.cluster_centers_
    return labels, {
        "membership": lambda: probi.memberships(nodes, centers)[range(len(nodes)), labels],
        "stability": lambda: probi.stability(nodes, k, N_WORLDS, seed, centers=centers).confidence,
    }


def paper(nodes: probi.Nodes, k: int, seed: int) -> Any:
    """The settings of the paper."""
    return probi.PROBI(k, preset="paper", random_state=seed, n_jobs=1).fit(nodes).predict(nodes)


def outliers(nodes: probi.Nodes, k: int, seed: int) -> Any:
    """One node in twenty is left out."""
    return probi.PROBI(k, outliers=OUTLIERS, random_state=seed, n_jobs=1).fit(nodes).predict(nodes)


SYSTEMS = {"probi": default, "probi, paper preset": paper, "probi, 5 % outliers": outliers}
