"""How good a clustering is: agreement with the classes, expected cost, and whether its confidence can be believed."""

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import probi

Labels = Any
Floats = Any
N_BINS = 10


def agreement(labels: Labels, classes: Labels) -> dict[str, float]:
    """Adjusted Rand index and normalized mutual information; noise is one more cluster.

    As clusters of its own, noise would have a high mutual information: with nothing but noise, that of no structure.
    """
    return {
        "ari": float(adjusted_rand_score(classes, labels)),
        "nmi": float(normalized_mutual_info_score(classes, labels)),
    }


def partition_cost(nodes: probi.Nodes, labels: Labels) -> float:
    """Expected cost of the best center of each cluster, every node with its nearest center.

    All systems get the best centers for their clusters, so that one which has means, or no centers at all, is judged by
    its clusters alone.
    """
    clusters = []
    of_realization = np.repeat(labels, np.diff(nodes.offsets))
    for number in np.unique(labels[labels >= 0]):
        rows = np.flatnonzero(of_realization == number)
        clusters.append((nodes.points[rows], nodes.probabilities[rows] / nodes.probabilities[rows].sum()))
    # A cluster's best center is the 1-median of all its realizations.
    unions = probi.Nodes.from_list([points for points, _ in clusters], [shares for _, shares in clusters])
    return float(probi.expected_cost(nodes, probi.one_medians(unions)[0]))


def calibration(confidence: Floats, labels: Labels, classes: Labels) -> dict[str, float]:
    """Expected calibration error over ten bins, and Brier score.

    A label is right if its cluster is matched to the class of the node, one to one, so that most are right.
    """
    known = np.isfinite(confidence) & (labels >= 0)
    confidence, labels, classes = confidence[known], labels[known], classes[known]
    counts = np.zeros((labels.max() + 1, classes.max() + 1))
    np.add.at(counts, (labels, classes), 1)
    rows, columns = linear_sum_assignment(-counts)
    match = np.full(len(counts), -1)
    match[rows] = columns
    right = (match[labels] == classes).astype(float)
    bins = np.minimum((N_BINS * confidence).astype(int), N_BINS - 1)
    gaps = np.bincount(bins, confidence - right, N_BINS)
    return {
        "ece": float(np.abs(gaps).sum() / len(right)),
        "brier": float(((confidence - right) ** 2).mean()),
        "confidence": float(confidence.mean()),
        "right": float(right.mean()),
    }
