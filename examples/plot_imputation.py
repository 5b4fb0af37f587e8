"""
Missing values by multiple imputation
=====================================

A row with a gap is not a point: the gap could hold many values. *Multiple imputation*
draws several that fit what is known of the row. Usually each draw becomes a data set of
its own, and the answers have to be combined somehow. Here the draws of a row are the
*realizations* of one *node*, and there is one answer.

Filling gaps with the mean of the column instead invents rows that nobody has seen, and
clusters are pulled there.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_iris
from sklearn.experimental import enable_iterative_imputer  # comes first
from sklearn.impute import IterativeImputer

import probi

plt.style.use("probi.report.gallery")
INK = "#1f2733"
BRIGHT = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]
# %%
# 150 iris flowers, four lengths each, in centimetres. What are their three clusters
# when all values are known?
X = load_iris().data
truth = probi.solve(probi.Nodes.from_points(X), n_clusters=3, random_state=0).labels


# %%
# Now values go missing at random, and come back in two ways. ``IterativeImputer``
# models each feature by the others; with ``sample_posterior`` it draws from that model.
def with_gaps(share, seed):
    """Flowers of which a share of the values is missing, but never all of a flower."""
    gaps = np.random.default_rng(seed).random(X.shape) < share
    gaps[gaps.all(axis=1), 0] = False
    return np.where(gaps, np.nan, X)


def drawn(Z, seed, n=10):
    """Several versions of each row, (n_rows, n, n_features)."""
    imputer = IterativeImputer(
        sample_posterior=True, max_iter=5, min_value=0.0, random_state=seed
    ).fit(Z)
    return np.stack([imputer.transform(Z) for _ in range(n)], axis=1)


def same(labels):
    """Which flowers are in the cluster that they have when all values are known."""
    table = [[np.sum((labels == c) & (truth == t)) for c in range(3)] for t in range(3)]
    clusters = linear_sum_assignment(table, maximize=True)[1]
    return np.argsort(clusters)[labels] == truth


def clustered(nodes):
    """Solve for three clusters."""
    return probi.solve(nodes, n_clusters=3, random_state=0)


Z = with_gaps(0.4, seed=1)
filled = np.where(np.isnan(Z), np.nanmean(Z, axis=0), Z)
nodes = probi.Nodes.from_dense(drawn(Z, seed=1))
by_mean, by_nodes = clustered(probi.Nodes.from_points(filled)), clustered(nodes)
print(f"{np.isnan(Z).any(axis=1).sum()} of {len(Z)} flowers have gaps.")
print(f"In the right cluster with column means: {same(by_mean.labels).mean():.0%}")
print(f"In the right cluster as nodes:          {same(by_nodes.labels).mean():.0%}")

# %%
# A node also says how sure it is. Of its realizations, how many lie next to the center
# that the node belongs to?
nearest = probi.assign(probi.Nodes.from_points(nodes.points), by_nodes.centers)
agree = nearest.reshape(len(nodes), -1) == by_nodes.labels[:, None]
good = same(by_nodes.labels)
for text, rows in (("all do", agree.all(axis=1)), ("not all", ~agree.all(axis=1))):
    print(f"{text}: {rows.sum()} flowers, {good[rows].mean():.0%} in the right cluster")

# %%
# More and more gaps, each time with three patterns of them. The mean of the draws is a
# point again: a better one than the column's mean, but it knows nothing of its doubt.
shares = np.array([0.1, 0.3, 0.5, 0.7])
right = np.zeros((3, len(shares)))
for j, share in enumerate(shares):
    for seed in range(3):
        Z_again = with_gaps(share, seed)
        draws = drawn(Z_again, seed)
        means = np.where(np.isnan(Z_again), np.nanmean(Z_again, axis=0), Z_again)
        ways = (
            probi.Nodes.from_points(means),
            probi.Nodes.from_points(draws.mean(axis=1)),
            probi.Nodes.from_dense(draws),
        )
        right[:, j] += [same(clustered(way).labels).mean() / 3 for way in ways]
print("gaps  column means  mean of draws  nodes")
for share, line in zip(shares, right.T, strict=True):
    print(f"{share:4.0%}" + "".join(f"{part:13.0%}" for part in line))

# %%
# The picture
# -----------
# Above: two of the four features. Means draw a cross of flowers that do not exist;
# draws stay where flowers are. Faint dots are realizations, solid ones medians, a ring
# is a flower in the wrong cluster.
ring = {"s": 46, "facecolors": "none", "edgecolors": INK, "linewidths": 0.7}
disc = {"s": 120, "edgecolors": "white", "linewidths": 1.8, "zorder": 3}
figure, axes = plt.subplot_mosaic(
    [["mean", "nodes"], ["gaps", "gaps"]], figsize=(7, 6.4), height_ratios=[1.4, 1]
)
medians, _ = probi.one_medians(nodes)
for name, places, result, title in (
    ("mean", filled, by_mean, "Gaps filled with column means"),
    ("nodes", medians, by_nodes, "Flowers as nodes of 10 draws"),
):
    axis, good = axes[name], same(result.labels)
    by_length = np.argsort(np.argsort(result.centers[:, 2]))
    colors = np.array(BRIGHT)[by_length]
    if name == "nodes":
        faint = colors[np.repeat(result.labels, 10)]
        axis.scatter(*nodes.points[:, 2:].T, s=5, c=faint, alpha=0.3, linewidths=0)
    axis.scatter(*places[:, 2:].T, s=16, c=colors[result.labels], linewidths=0)
    axis.scatter(*places[~good][:, 2:].T, **ring)
    axis.scatter(*result.centers[:, 2:].T, c=colors, **disc)
    axis.set(xlim=(0, 7.5), ylim=(-0.1, 2.9), xlabel="length of the petal, cm")
    axis.set_title(f"{title}:\n{np.sum(~good)} of {len(good)} in the wrong cluster")
axes["mean"].set_ylabel("width of the petal, cm")

axis = axes["gaps"]
names = {"column means": "C1", "mean of draws": "C3", "nodes": "C0"}
for line, (name, color) in zip(100 * right, names.items(), strict=True):
    axis.plot(100 * shares, line, color=color, marker="o", markersize=4, linewidth=2)
    axis.annotate(name, (71, line[-1]), va="center", annotation_clip=False)
axis.set(xlabel="values that are missing, %", ylabel="in the right cluster, %")
axis.set(xlim=(0, 70), ylim=(None, 100))
axis.grid(axis="y")
axis.set_title("Flowers in the cluster that they have when nothing is missing")
plt.show()
