"""The assignment kernel without bounds: what the pruned one is compared to."""

import numpy as np

import probi
from probi import _parallel
from probi._kernels._compile import kernel
from probi._kernels.geometry import expected_distance


@kernel
def _assign(points, probabilities, offsets, centers, labels, start, stop):
    for node in range(start, stop):
        best = np.inf
        for c in range(centers.shape[0]):
            distance = expected_distance(points, probabilities, offsets, node, centers, c)
            if distance < best:
                best = distance
                labels[node] = c


def assign(nodes: probi.Nodes, centers: np.ndarray) -> np.ndarray:
    labels = np.zeros(len(nodes), np.int32)
    _parallel.run(_assign, nodes.pieces(), nodes.points, nodes.probabilities, nodes.offsets, centers, labels)
    return labels
