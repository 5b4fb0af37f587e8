"""
Sensors with faults
===================

A sensor reports eight times, and now and then it reports nonsense. Whoever clusters sensors usually takes the mean of
each one's readings first and runs k-means on the means. One absurd reading moves a mean a long way, so sensors end up in
the wrong group, and so do the centers.

probi takes the sensor as it is: a *node* with eight *realizations*. Its cost is an expected distance, not a squared one,
and an absurd reading is about equally far from all centers, so it hardly takes part in the choice between them.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

import probi

# sphinx_gallery_start_ignore
# The look that the pictures of the gallery share; Paul Tol's "bright" colours are distinct for the colour-blind.
INK, MUTED, LINE = "#1f2733", "#667080", "#d9dde3"
BRIGHT = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]
plt.rcParams.update({"font.size": 9.5, "text.color": INK, "figure.constrained_layout.use": True})
plt.rcParams.update({"axes.edgecolor": MUTED, "axes.labelcolor": INK, "axes.linewidth": 0.6, "axes.titlesize": 10.5})
plt.rcParams.update({"axes.spines.right": False, "axes.spines.top": False, "axes.titlelocation": "left"})
plt.rcParams.update({"xtick.color": MUTED, "xtick.labelcolor": INK, "ytick.color": MUTED, "ytick.labelcolor": INK})
plt.rcParams.update({"axes.prop_cycle": plt.cycler(color=BRIGHT), "grid.color": LINE, "grid.linewidth": 0.6})
# sphinx_gallery_end_ignore
# %%
# Sixty sensors stand at each of four sites. A share of all readings, here a fifth, is anything between −60 and 60.
rng = np.random.default_rng(4)
SITES = np.array([[0.0, 0.0], [7.0, 1.0], [2.0, 7.0], [9.0, 8.0]])
site = np.repeat(np.arange(4), 60)


def readings_of(faulty):
    readings = SITES[site][:, None] + rng.normal(scale=1.0, size=(len(site), 8, 2))
    broken = rng.random(readings.shape[:2]) < faulty
    readings[broken] = rng.uniform(-60, 60, size=(broken.sum(), 2))
    return readings


readings = readings_of(0.2)
nodes = probi.Nodes.from_dense(readings)

# %%
# Both ways, and a third for fairness: k-means on the certified 1-median of each sensor.
means, (medians, _) = readings.mean(axis=1), probi.one_medians(nodes)


def k_means(points):
    found = KMeans(4, n_init=10, random_state=0).fit(points)
    return found.labels_, found.cluster_centers_


def k_median(nodes):
    found = probi.solve(nodes, n_clusters=4, random_state=0)
    return found.labels, found.centers


# %%
# Clusters have no names, so they are matched to the sites in the best possible way before the sensors at the wrong one
# are counted.
def matched(labels, centers):
    """Site that each cluster stands for."""
    table = np.array([[np.sum((labels == c) & (site == s)) for s in range(4)] for c in range(4)])
    return linear_sum_assignment(-table)[1]


def n_wrong(labels, centers):
    return int(np.sum(matched(labels, centers)[labels] != site))


by_means, by_nodes = k_means(means), k_median(nodes)
print(f"k-means on the means:   {n_wrong(*by_means):3d} of {len(site)} sensors at the wrong site")
print(f"k-means on the medians: {n_wrong(*k_means(medians)):3d}")
print(f"probi on the nodes:     {n_wrong(*by_nodes):3d}")

# %%
# How many faults can each of them take? A new set of readings for each share of faults, five times.
shares = np.arange(0, 0.51, 0.05)
wrong = np.zeros((3, len(shares)))
for j, share in enumerate(shares):
    for _ in range(5):
        again = probi.Nodes.from_dense(readings_of(share))
        ways = k_means(again.gravity_centers), k_means(probi.one_medians(again)[0]), k_median(again)
        wrong[:, j] += [n_wrong(*way) / len(site) / 5 for way in ways]
for j in (2, 4, 6, 8):
    print(f"{shares[j]:.0%} faults, wrong sensors: " + ", ".join(f"{share:.1%}" for share in wrong[:, j]))

# %%
# The picture
# -----------
# Grey dots are readings, which go on far outside of the frame. A mark is a sensor, in the colour of the site that it was
# put to and at the place that the method sees: its mean on the left, its median on the right. A ring means: wrong.
figure, axes = plt.subplot_mosaic([["means", "nodes"], ["faults", "faults"]], figsize=(7, 6.4), height_ratios=[1.5, 1])
for name, places, (labels, centers), title in (
    ("means", means, by_means, "k-means on the means"),
    ("nodes", medians, by_nodes, "probi on the nodes"),
):
    axis, names = axes[name], matched(labels, centers)
    axis.scatter(*readings.reshape(-1, 2).T, s=3, color="#b8c0cc", linewidths=0)
    put = names[labels]
    axis.scatter(*places.T, s=16, c=[BRIGHT[s] for s in put], linewidths=0)
    axis.scatter(*places[put != site].T, s=48, facecolors="none", edgecolors=INK, linewidths=0.8)
    axis.scatter(*SITES.T, marker="+", s=170, color=INK, linewidths=1.4, zorder=3)
    for s, center in zip(names, centers, strict=True):
        axis.scatter(*center, s=110, color=BRIGHT[s], edgecolors="white", linewidths=2, zorder=4)
    axis.set(xlim=(-12, 20), ylim=(-12, 20), aspect="equal", xlabel="x, m")
    axis.set_title(f"{title}: {n_wrong(labels, centers)} of {len(site)} wrong")
axes["means"].set_ylabel("y, m")
axes["means"].annotate(
    "large dot: center\n+ true site", (0.03, 0.97), xycoords="axes fraction", va="top", fontsize=8.5, color=INK
)
axis = axes["faults"]
for line, name, color in zip(
    wrong, ("k-means on the means", "k-means on the medians", "probi"), "C1 C3 C0".split(), strict=True
):
    axis.plot(100 * shares, 100 * line, color=color, marker="o", markersize=4, linewidth=2)
    axis.annotate(
        name, (100 * shares[-1], 100 * line[-1]), (8, 0), textcoords="offset points", va="center", annotation_clip=False
    )
axis.set(xlabel="readings that are nonsense, %", ylabel="sensors at the wrong site, %", xlim=(0, 50), ylim=(0, None))
axis.grid(axis="y")
axis.set_title("How many faults each of them can take")
plt.show()
