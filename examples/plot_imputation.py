"""
Clusters under missing values
=============================

A row with a gap is not a point: the gap could hold many values. *Multiple imputation*
draws several that fit what is known of the row. Usually each draw becomes a data set of
its own, and the answers have to be combined somehow. Here the draws of a row are the
*realizations* of one *node*, and there is one answer.

Filling gaps with the mean of the column instead invents rows that nobody has seen, and
clusters are pulled there. Filling them with one draw is honest about the range, but
believes a single guess.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

import probi
import probi.impute

plt.style.use("probi.report.gallery")
INK = "#1f2733"
BRIGHT = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]
# %%
# 240 birds of three species, four lengths each. Within a species the lengths of a bird
# go together, so what is known of it tells something about what is not.
rng = np.random.default_rng(2)
MEANS = np.array([[40, 17, 19, 37], [46, 15, 22, 48], [50, 19, 20, 39]], dtype=float)
species = np.repeat([0, 1, 2], 80)
size = rng.normal(0, 1, (240, 1)) * [2.2, 0.9, 0.6, 2.0]
birds = MEANS[species] + size + rng.normal(0, 1, (240, 4)) * [1.1, 0.5, 0.4, 1.2]
X = birds / birds.std(axis=0)  # one unit is a standard deviation


# %%
# Values go missing at random, and come back in three ways. ``probi.impute.draws`` makes
# completed copies of the table, with scikit-learn's ``IterativeImputer``;
# ``from_imputations`` makes a node of each row. Complete rows stay certain.
def with_gaps(share, seed):
    """Birds of which a share of the values is missing, but never all of a bird."""
    rng = np.random.default_rng(seed)
    gaps = rng.random(X.shape) < share
    gaps[np.arange(len(X)), rng.integers(4, size=len(X))] = False
    return np.where(gaps, np.nan, X)


def completed(Z, seed):
    """Nodes of each way."""
    copies = probi.impute.draws(Z, m=10, max_iter=5, random_state=seed)
    return {
        "column means": probi.Nodes.from_points(
            np.where(np.isnan(Z), np.nanmean(Z, axis=0), Z)
        ),
        "one imputation": probi.Nodes.from_points(copies[0]),
        "nodes": probi.Nodes.from_imputations(copies),
    }


def clustered(nodes):
    """Solve for three clusters."""
    return probi.solve(nodes, n_clusters=3, random_state=0)


ways = completed(with_gaps(0.3, seed=1), seed=1)
print(ways["nodes"])

# %%
# The adjusted Rand index compares clusters with the species: 1 if they are the same, 0
# by chance. Mean over five patterns of gaps for each share of them.
shares, n_patterns = np.array([0.1, 0.3, 0.5]), 5
index = np.zeros((3, len(shares)))
for j, share in enumerate(shares):
    for seed in range(n_patterns):
        for i, nodes in enumerate(completed(with_gaps(share, seed), seed).values()):
            index[i, j] += adjusted_rand_score(species, clustered(nodes).labels)
index /= n_patterns
complete = adjusted_rand_score(species, clustered(probi.Nodes.from_points(X)).labels)
print(f"nothing missing: {complete:.2f}")
print("missing" + "".join(f"{name:>16s}" for name in ways))
for share, line in zip(shares, index.T, strict=True):
    print(f"{share:7.0%}" + "".join(f"{part:16.2f}" for part in line))

# %%
# A node also says how sure it is: the share of its draws that are nearest to the center
# of its cluster.
result = clustered(ways["nodes"])
sure = probi.memberships(ways["nodes"], result.centers).max(axis=1)
majority = np.array(
    [np.bincount(species[result.labels == c]).argmax() for c in range(3)]
)
right = majority[result.labels] == species
for text, rows in (("all draws agree", sure > 0.99), ("they do not", sure <= 0.99)):
    print(f"{text}: {rows.sum()} birds, {right[rows].mean():.0%} with their species")

# %%
# The picture
# -----------
# Above: two of the four lengths. Means draw a cross of birds that do not exist; draws
# stay where birds are. Faint dots are realizations, solid ones medians; large dots are
# centers.
figure, axes = plt.subplot_mosaic(
    [["column means", "nodes"], ["gaps", "gaps"]],
    figsize=(7, 6.4),
    height_ratios=[1.4, 1],
)
disc = {"s": 120, "edgecolors": "white", "linewidths": 1.8, "zorder": 3}
for name in ("column means", "nodes"):
    axis, nodes, result = axes[name], ways[name], clustered(ways[name])
    colors = np.array(BRIGHT)[np.argsort(np.argsort(result.centers[:, 3]))]
    owner = np.repeat(result.labels, np.diff(nodes.offsets))
    axis.scatter(*nodes.points[:, [0, 3]].T, s=4, c=colors[owner], alpha=0.25, lw=0)
    medians, _ = probi.one_medians(nodes)
    axis.scatter(*medians[:, [0, 3]].T, s=14, c=colors[result.labels], linewidths=0)
    axis.scatter(*result.centers[:, [0, 3]].T, c=colors, **disc)
    axis.set(
        xlim=(6.8, 12.2), ylim=(5.3, 10.2), xlabel="length of the beak, standardized"
    )
    score = adjusted_rand_score(species, result.labels)
    axis.set_title(f"30 % missing, {name}:\nadjusted Rand index {score:.2f}")
axes["column means"].set_ylabel("length of the wing, standardized")

axis = axes["gaps"]
for line, name, color in zip(index, ways, ("C1", "C3", "C0"), strict=True):
    axis.plot(100 * shares, line, color=color, marker="o", markersize=4, linewidth=2)
    axis.annotate(name, (50.7, line[-1]), va="center", annotation_clip=False)
axis.axhline(complete, color=INK, linewidth=0.8, linestyle="--")
axis.annotate("nothing missing", (42, complete), (0, -11), textcoords="offset points")
axis.set(xlabel="values that are missing, %", ylabel="adjusted Rand index")
axis.set(xlim=(9, 50), xticks=(10, 20, 30, 40, 50))
axis.grid(axis="y")
axis.set_title("Clusters against species, mean over five patterns")
plt.show()
