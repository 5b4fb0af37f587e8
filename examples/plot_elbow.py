"""
How many clusters? A curve with error bars
==========================================

The cost falls with every further cluster. To see by how much, one needs it for many
numbers of clusters. With probi the data is read once: one *summary*, made for the
largest number, serves all smaller ones. Which of them to take depends on what they are
for; no rule finds it in the curve.

The curve of a summary is an estimate, and its bars say how good a one. The area below
it is the nodes' own *spread*: no clustering, with however many centers, costs less.
"""

import matplotlib.pyplot as plt
import numpy as np

import probi
from probi.report import plot_elbow

plt.style.use("probi.report.gallery")
INK, MUTED = "#1f2733", "#667080"
BRIGHT = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]
# %%
# 60,000 nodes with four realizations each, in seven groups: a pair, a triple, and two
# that stand alone.
rng = np.random.default_rng(5)
GROUPS = np.array(
    [[0, 0], [4.5, 1], [11, 0], [15, 3], [10.5, 4.5], [3, 8], [14, 10]], dtype=float
)
N = 60_000
middle = GROUPS[rng.integers(7, size=N)] + rng.normal(scale=0.5, size=(N, 2))
points = middle[:, None] + rng.normal(scale=1.2, size=(N, 4, 2))
nodes = probi.Nodes.from_dense(points)

# %%
# One pass over the data, then eleven answers.
ks = range(2, 13)
summary = probi.Summary(n_clusters=max(ks), size=1000, random_state=0)
summary.update(nodes)
results = [probi.solve(summary, n_clusters=k, random_state=0) for k in ks]
print(summary)

# %%
# The *excess* is what the centers cost beyond the spread: the only part that a further
# cluster can lower. And the lower bound is certified for any number of centers, so it
# also says what could be saved at most.
print(" k     cost    ±   excess  could be saved at most")
for k, found in zip(ks, results, strict=True):
    row = f"{k:2d} {found.cost:8,.0f} {found.standard_error:4.0f} {found.excess:8,.0f}"
    print(f"{row} {1 - found.lower_bound / found.cost:23.0%}")

# %%
# Are the bars honest? We still have the data, so we can look how many standard errors
# the estimates are off. They all stem from one sample of nodes, so they tend to be off
# in the same direction, which hardly changes the shape of the curve.
exact = [probi.expected_cost(nodes, found.centers) for found in results]
for k, found, cost in zip(ks, results, exact, strict=True):
    print(f"k = {k:2d}: {(found.cost - cost) / found.standard_error:+.1f}")

# %%
# The picture
# -----------
# Above: the curve, with bars of two standard errors to each side, and the exact costs
# as crosses. Below: what three, seven and eleven clusters look like, by some nodes that
# the summary keeps.
figure, axes = plt.subplot_mosaic(
    [["costs"] * 3, [3, 7, 11]], figsize=(7, 5.6), height_ratios=[2, 1]
)
plot_elbow(results, ax=axes["costs"])
axes["costs"].plot(ks, exact, marker="x", color=INK, linestyle="none", zorder=5)
axes["costs"].set_title(f"Eleven answers from one pass over {summary.n_nodes:,} nodes")

some = summary.sample()[:1000]
medians, _ = probi.one_medians(some)
more_colors = np.array([*BRIGHT, "#bbbbbb", MUTED, "#994455", "#004488", "#997700"])
for k in (3, 7, 11):
    centers = results[ks.index(k)].centers
    colors = more_colors[np.argsort(np.argsort(centers @ [1, 0.3]))]
    shades = colors[probi.assign(some, centers)]
    axes[k].scatter(*medians.T, s=5, c=shades, linewidths=0)
    axes[k].scatter(*centers.T, s=60, c=colors, edgecolors="white", linewidths=1.5)
    axes[k].set(aspect="equal", xticks=[], yticks=[], xlim=(-3, 18), ylim=(-3, 12.5))
    axes[k].spines[:].set_visible(False)
    axes[k].set_title(f"{k} clusters", loc="center")
plt.show()
