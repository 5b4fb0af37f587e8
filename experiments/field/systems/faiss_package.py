"""faiss: its k-means on the means."""

from typing import Any

import numpy as np

REQUIRES = ["faiss-cpu"]
VERSION = "faiss-cpu"


def kmeans(objects: Any, k: int, seed: int) -> Any:
    """As it comes, but with ten starts, as the other k-means."""
    import faiss

    means = np.ascontiguousarray(objects.means, np.float32)
    model = faiss.Kmeans(means.shape[1], k, seed=seed + 1, nredo=10, min_points_per_centroid=1)
    model.train(means)
    return model.index.search(means, 1)[1][:, 0]


SYSTEMS = {"faiss of means": kmeans}
