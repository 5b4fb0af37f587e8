"""
Covertype at scale
==================

How large must a *summary* be, and how long does it take? Forest Covertype, a data set of the paper, has 581,012 pieces
of land with 54 attributes. Ten neighbours at a time are one *node*, as in the paper.

The data set does not come with probi. If the folder named by the environment variable ``PROBI_DATA`` has a file
``covertype.parquet``, it is used; if not, **made-up data of the same shape** takes its place, and the picture says so.
"""

import os
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

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
# The stand-in has as many rows, ten measured columns and 44 of zeros and ones, and neighbours that are alike; nothing
# else of it is true.
N_ROWS = 581_012


def stand_in():
    """Rows that wander around some made-up kinds of land."""
    rng = np.random.default_rng(0)
    kind = np.repeat(rng.integers(30, size=N_ROWS // 50 + 1), 50)[:N_ROWS]
    measured = rng.normal(size=(30, 10), scale=700)[kind] + rng.normal(size=(N_ROWS, 10), scale=60)
    measured += np.repeat(rng.normal(size=(N_ROWS // 50 + 1, 10), scale=300), 50, axis=0)[:N_ROWS]
    return np.concatenate([measured, (rng.random((30, 44)) < 0.1)[kind]], axis=1).astype(np.float32)


path = Path(os.environ.get("PROBI_DATA", "data")) / "covertype.parquet"
if path.is_file():
    name = "Covertype"
    table = pq.read_table(path).drop_columns(["Cover_Type"])
    rows = np.column_stack([column.to_numpy() for column in table.columns]).astype(np.float32)
else:
    name = "Made-up stand-in for Covertype"
    rows = stand_in()
nodes = probi.Nodes.from_groups(rows, size=10)
print(name)
print(nodes)

# %%
# The yardstick: centers found from all nodes, with two starts instead of the usual ten, so that it does not take long.
K = 10
start = time.perf_counter()
full = probi.solve(nodes, n_clusters=K, n_init=2, random_state=0)
full_seconds = time.perf_counter() - start
print(full)
print(f"took {full_seconds:.1f} s")

# %%
# Summaries of several sizes, two of each. Times are for reading all nodes and for solving the summary; the cost is
# the exact one of the centers on **all** nodes, compared with the yardstick.
sizes = np.array([100, 200, 500, 1000, 2000, 5000])
reading, solving, costs = np.zeros((3, len(sizes), 2))
for j, size in enumerate(sizes):
    for seed in range(2):
        summary = probi.Summary(n_clusters=K, size=int(size), random_state=seed)
        start = time.perf_counter()
        summary.update(nodes)
        reading[j, seed] = time.perf_counter() - start
        start = time.perf_counter()
        result = probi.solve(summary, n_clusters=K, random_state=seed)
        solving[j, seed] = time.perf_counter() - start
        costs[j, seed] = probi.expected_cost(nodes, result.centers)
above = 100 * (costs / full.cost - 1)
for size, *values in zip(sizes, reading.mean(axis=1), solving.mean(axis=1), above.mean(axis=1), strict=True):
    print("{:5d} nodes: read in {:.2f} s, solved in {:.2f} s, centers cost {:+.2f} %".format(size, *values))

# %%
# The larger the summary, the nearer its centers come to those of all the data. Both together, reading and solving it,
# take a fraction of the time, and memory does not grow with the data. Times are those of the machine that made this
# page, and the yardstick had only two starts.
#
# The picture
# -----------
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.9), width_ratios=[1.15, 1])
figure.suptitle(
    f"{name}: {len(nodes):,} nodes, {nodes.n_features} features, {K} clusters", x=0.01, ha="left", weight="bold"
)
left.axhline(0, color=INK, linewidth=1)
left.annotate("centers from all nodes", (sizes[0], 0), (0, -11), textcoords="offset points")
left.plot(sizes, above.mean(axis=1), color="C0", linewidth=2)
left.plot(sizes, above, color="C0", marker="o", markersize=5, linestyle="none", alpha=0.7, markeredgewidth=0)
left.set(
    xlabel="nodes in the summary",
    ylabel="above the cost with all nodes, %",
    xscale="log",
    xticks=sizes,
    xticklabels=sizes,
)
left.set_ylim(bottom=-0.12 * above.max())
left.minorticks_off()
left.grid(axis="y")
left.set_title("Cost on all the data")

bars = [f"{size:,}" for size in sizes] + [f"all {len(nodes):,}"]
right.barh(bars, [*reading.mean(axis=1), 0], color="#9fb3c8", height=0.7)
right.barh(bars, [*solving.mean(axis=1), 0], left=[*reading.mean(axis=1), 0], color="C0", height=0.7)
right.barh(bars[-1:], [full_seconds], color="C1", height=0.7)
row, end = len(sizes) - 1, reading[-1].mean() + solving[-1].mean()
style = {"va": "center", "weight": "bold", "textcoords": "offset points"}
read = right.annotate("read", (end, row), (6, 0), color="#6f8aa6", **style)
right.annotate("and solve the summary", (1, 0.5), (4, 0), xycoords=read, color="C0", **style)
right.annotate("solve all nodes", (0, row + 1), (6, 0), color="white", **style)
right.tick_params(axis="y", length=0)
right.spines["left"].set_visible(False)
right.set(xlabel="seconds")
right.set_title("Time")
plt.show()
