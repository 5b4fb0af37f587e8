"""
Sensors with faults
===================

A sensor reports five times, and now and then it reports nonsense. The usual way is to
take the mean of each sensor's readings and to run k-means on the means. But one absurd
reading moves a mean a long way, so sensors end up in the wrong group, and the centers
go with them.

probi takes the sensor as it is: a *node* with five *realizations*. An absurd reading is
about equally far from all centers, and distances are not squared, so it hardly takes
part in the choice between them.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

import probi

plt.style.use("probi.report.gallery")
INK = "#1f2733"
BRIGHT = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]
# %%
# Sixty sensors stand at each of four sites. A share of all readings, here a fifth, is
# anything between −60 and 60.
rng = np.random.default_rng(4)
SITES = np.array([[0.0, 0.0], [7.0, 1.0], [2.0, 7.0], [9.0, 8.0]])
site = np.repeat(np.arange(4), 60)


def readings_of(faulty):
    """Five readings of each sensor, of which a share is nonsense."""
    readings = SITES[site][:, None] + rng.normal(size=(len(site), 5, 2))
    broken = rng.random(readings.shape[:2]) < faulty
    readings[broken] = rng.uniform(-60, 60, size=(broken.sum(), 2))
    return readings


readings = readings_of(0.2)
nodes = probi.Nodes.from_dense(readings)
print(nodes)


# %%
# Both ways, and a third for fairness: k-means on the median of each sensor, which probi
# computes as well. Clusters have no names, so they are matched to the sites in the best
# possible way before wrong sensors are counted.
def k_means(points):
    """Labels and centers of k-means."""
    found = KMeans(4, n_init=4, random_state=0).fit(points)
    return named(found.labels_, found.cluster_centers_)


def k_median(nodes):
    """Labels and centers of probi."""
    found = probi.solve(nodes, n_clusters=4, random_state=0)
    return named(found.labels, found.centers)


def named(labels, centers):
    """Site that each sensor was put to, and the center of each site."""
    table = [[np.sum((labels == c) & (site == s)) for c in range(4)] for s in range(4)]
    clusters = linear_sum_assignment(table, maximize=True)[1]
    return np.argsort(clusters)[labels], centers[clusters]


means, (medians, _) = readings.mean(axis=1), probi.one_medians(nodes)
by_means, by_medians, by_nodes = k_means(means), k_means(medians), k_median(nodes)
found = {"means": by_means, "medians": by_medians, "nodes": by_nodes}
for name, (put, _) in found.items():
    print(
        f"by {name:8s}{np.sum(put != site):4d} of {len(site)} sensors at the wrong site"
    )

# %%
# How many faults can each way take? New readings for each share of faults, three times.
shares = np.arange(0, 0.41, 0.05)
wrong = np.zeros((3, len(shares)))
for j, share in enumerate(shares):
    for _ in range(3):
        again = probi.Nodes.from_dense(readings_of(share))
        medians_again, _ = probi.one_medians(again)
        ways = k_means(again.gravity_centers), k_means(medians_again), k_median(again)
        wrong[:, j] += [np.mean(put != site) / 3 for put, _ in ways]
print("faults  by means  by medians  by nodes")
for share, line in zip(shares[2::2], wrong.T[2::2], strict=True):
    print(f"{share:6.0%}" + "".join(f"{part:10.1%}" for part in line))

# %%
# The median of a few readings already helps a great deal. Where faults get so common
# that some medians are nonsense too, only the whole node still knows where most of its
# readings were.
#
# The picture
# -----------
# Grey: readings, which go on far outside of the frame. A dot is a sensor, where the
# method sees it (its mean on the left, its median on the right) and in the colour of
# the site that it was put to. A ring means wrong; large dots are centers, crosses the
# true sites.
figure, axes = plt.subplot_mosaic(
    [["means", "nodes"], ["faults", "faults"]],
    figsize=(7, 6.6),
    height_ratios=[1.55, 1],
)
ring = {"s": 42, "facecolors": "none", "edgecolors": INK, "linewidths": 0.7}
disc = {"s": 90, "edgecolors": "white", "linewidths": 1.8, "zorder": 3}
for name, places, (put, centers), title in (
    ("means", means, by_means, "k-means on the means"),
    ("nodes", medians, by_nodes, "probi on the nodes"),
):
    axis = axes[name]
    axis.scatter(*readings.reshape(-1, 2).T, s=4, color="#b8c0cc", linewidths=0)
    axis.scatter(*places.T, s=14, c=[BRIGHT[s] for s in put], linewidths=0)
    axis.scatter(*places[put != site].T, **ring)
    axis.scatter(*centers.T, c=BRIGHT[:4], **disc)
    axis.scatter(*SITES.T, marker="+", s=110, color=INK, linewidths=1.3, zorder=4)
    axis.set(xlim=(-12, 22), ylim=(-13, 21), aspect="equal", xticks=(-10, 0, 10, 20))
    axis.set_xlabel("x, metres")
    axis.set_title(f"{title}:\n{np.sum(put != site)} of {len(site)} sensors wrong")
axes["means"].set_ylabel("y, metres")

axis = axes["faults"]
mark = {"marker": "o", "markersize": 4, "linewidth": 2, "clip_on": False}
beside = {"va": "center", "annotation_clip": False}
for line, name, color in zip(100 * wrong, found, ("C1", "C3", "C0"), strict=True):
    axis.plot(100 * shares, line, color=color, **mark)
    axis.annotate(f"by {name}", (40.8, line[-1]), **beside)
axis.set(xlabel="readings that are nonsense, %", ylabel="sensors at the wrong site, %")
axis.set(xlim=(0, 40), ylim=(0, None))
axis.grid(axis="y")
axis.set_title("How many faults each way can take")
plt.show()
