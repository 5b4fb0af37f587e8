"""kmedoids: FasterPAM with the distances of means."""

from typing import Any

REQUIRES = ["kmedoids", "scikit-learn"]
VERSION = "kmedoids"


def fasterpam(objects: Any, k: int, seed: int) -> Any:
    """Medoids among the means."""
    import kmedoids
    from sklearn.metrics import pairwise_distances

    return kmedoids.fasterpam(pairwise_distances(objects.means), k, random_state=seed, n_cpu=1).labels


SYSTEMS = {"kmedoids of means": fasterpam}
