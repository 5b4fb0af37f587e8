"""Who is better, and is that chance? Mean ranks with Nemenyi's critical difference, and paired tests with Holm's.

J. Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7 (2006).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

Floats = Any
LEVEL = 0.05


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of systems, 1 is best; a difference of at least ``critical`` is significant."""

    ranks: dict[str, float]
    critical: float
    p_value: float
    n_settings: int


def ranking(scores: dict[str, Floats], is_higher_better: bool) -> Ranking:
    """Ranks in each setting, by a score each; a system without one (nan) comes last."""
    names = list(scores)
    values = np.column_stack([scores[name] for name in names])
    # Ties: what differs by rounding alone is equal.
    values = np.array([[float(f"{value:.6g}") for value in row] for row in values])
    worst = -np.inf if is_higher_better else np.inf
    values = np.where(np.isnan(values), worst, values)
    ranks = stats.rankdata(-values if is_higher_better else values, axis=1)
    n, k = ranks.shape
    mean = ranks.mean(axis=0)
    # Friedman's statistic with ties: the rank sums' deviation over the variance of ranks within settings.
    spread = (ranks**2).sum() - n * k * (k + 1) ** 2 / 4
    statistic = (k - 1) * n**2 * ((mean - (k + 1) / 2) ** 2).sum() / spread if spread else 0.0
    critical = stats.studentized_range.ppf(1.0 - LEVEL, k, np.inf) / np.sqrt(2.0) * np.sqrt(k * (k + 1) / (6.0 * n))
    return Ranking(
        dict(sorted(zip(names, mean.tolist(), strict=True), key=lambda pair: pair[1])),
        float(critical), float(stats.chi2.sf(statistic, k - 1)), n,
    )  # fmt: skip


def holm(p_values: dict[str, float]) -> dict[str, float]:
    """Adjusted p-values: the i-th smallest times the number of those that are not smaller."""
    adjusted, largest = {}, 0.0
    for i, (name, p) in enumerate(sorted(p_values.items(), key=lambda pair: pair[1])):
        largest = max(largest, min(1.0, p * (len(p_values) - i)))
        adjusted[name] = largest
    return adjusted


def significantly_better(ours: Floats, others: dict[str, Floats]) -> dict[str, float]:
    """Systems with larger values than ours in the same runs, and Holm's p-values (two-sided Wilcoxon tests)."""
    p_values = {}
    for name, values in others.items():
        both = ~np.isnan(ours) & ~np.isnan(values)
        differences = np.round(values - ours, 9)[both]
        if np.any(differences):
            p_values[name] = float(stats.wilcoxon(differences).pvalue)
    adjusted = holm(p_values)
    return {name: p for name, p in adjusted.items() if p < LEVEL and np.nanmean(others[name] - ours) > 0}
