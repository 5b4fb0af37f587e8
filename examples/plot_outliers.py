"""
Ordinary points with outliers
=============================

probi is a k-median library for ordinary points, too: an array of shape (n, d) is a set
of *certain* nodes, and :class:`probi.PLloyd` is a scikit-learn estimator like any
other.

k-means squares distances, so a few points far away weigh as much as whole clusters, and
it gives them centers that the clusters need. k-median does not square, and can take
more of that. How much more?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

import probi

plt.style.use("probi.report.gallery")
INK, MUTED = "#1f2733", "#667080"
BRIGHT = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]
# %%
# Five clusters of 200 points, and outliers in a square around them.
rng = np.random.default_rng(2)
TRUE = np.array([[-9, -10], [5, -9], [-6, 2], [10, 3], [1, 13]], dtype=float)
N_OUTLIERS = 60


def points_of(n_outliers, half_width):
    """Points of five clusters, then outliers in a square around the origin."""
    inside = np.repeat(TRUE, 200, axis=0) + rng.normal(scale=2, size=(1000, 2))
    outside = rng.uniform(-half_width, half_width, size=(n_outliers, 2))
    return np.concatenate([inside, outside])


def off_by(centers):
    """Mean distance from a true center to the nearest one that was found."""
    return probi.expected_cost(probi.Nodes.from_points(TRUE), centers) / len(TRUE)


X = points_of(N_OUTLIERS, half_width=60)
k_means = KMeans(5, n_init=4, random_state=0).fit(X)
k_median = probi.PLloyd(5, random_state=0).fit(X)
print(f"k-means:  centers off by {off_by(k_means.cluster_centers_):.2f}")
print(f"k-median: centers off by {off_by(k_median.cluster_centers_):.2f}")

# %%
# The same number of outliers, farther and farther away. No method is safe for ever: at
# some distance a center for outliers is worth its price in the sum of distances as
# well. Means over three draws.
widths = np.array([20, 30, 40, 60, 90, 140, 220, 350])
off = np.zeros((2, len(widths)))
for j, width in enumerate(widths):
    for _ in range(3):
        again = points_of(N_OUTLIERS, half_width=width)
        models = KMeans(5, n_init=4, random_state=0), probi.PLloyd(5, random_state=0)
        off[:, j] += [off_by(m.fit(again).cluster_centers_) / 3 for m in models]
print("half width  " + "".join(f"{width:6d}" for width in widths))
for name, line in zip(("k-means", "k-median"), off, strict=True):
    print(f"{name:12s}" + "".join(f"{value:6.2f}" for value in line))

# %%
# The picture
# -----------
# The same points twice, in the colour of their center. Crosses are the true centers,
# large dots those that were found.
figure, axes = plt.subplot_mosaic(
    [["means", "median"], ["far", "far"]], figsize=(7, 6.4), height_ratios=[1.55, 1]
)
for name, model, title in (
    ("means", k_means, "k-means"),
    ("median", k_median, "k-median (probi)"),
):
    axis, centers = axes[name], model.cluster_centers_
    colors = np.array(BRIGHT)[np.argsort(np.argsort(np.hypot(*centers.T)))]
    axis.scatter(*X.T, s=7, c=colors[model.labels_], linewidths=0)
    axis.scatter(*centers.T, s=80, c=colors, edgecolors="white", linewidths=1.8)
    axis.scatter(*TRUE.T, marker="+", s=50, color=INK, linewidths=1.2, zorder=4)
    axis.set(aspect="equal", xlim=(-52, 52), ylim=(-52, 52))
    axis.set(xticks=(-50, 0, 50), yticks=(-50, 0, 50))
    axis.set_title(f"{title}: off by {off_by(centers):.1f}")

lost = max(k_means.cluster_centers_, key=np.linalg.norm)
distances = probi.expected_distances(
    probi.Nodes.from_points(TRUE), k_means.cluster_centers_
)
shared = TRUE[distances.min(axis=1).argmax()]
for text, place, shift in (
    ("a center for outliers", lost, (-4, -22)),
    ("two clusters share one", shared, (-12, 40)),
):
    arrow = {"arrowstyle": "-", "color": MUTED, "shrinkB": 6}
    style = {"textcoords": "offset points", "ha": "center", "arrowprops": arrow}
    axes["means"].annotate(text, place, shift, **style)

axis = axes["far"]
for line, name, color in zip(off, ("k-means", "k-median"), ("C1", "C0"), strict=True):
    axis.plot(widths, line, color=color, marker="o", markersize=4, linewidth=2)
    axis.annotate(name, (370, line[-1]), va="center", annotation_clip=False)
axis.set(xscale="log", xticks=widths, xticklabels=widths, ylim=(0, None))
axis.set_xlim(widths[0], widths[-1])
axis.set_xlabel("half width of the square with the outliers")
axis.set_ylabel("centers off by")
axis.minorticks_off()
axis.grid(axis="y")
share = N_OUTLIERS / len(X)
axis.set_title(f"{share:.0%} outliers, farther and farther away")
plt.show()
