"""
Covertype at scale
==================

How large must a *summary* be, and how long does it take? Forest Covertype, a data set
of the paper, has 581,012 pieces of land with 54 attributes. Ten neighbours at a time
are one *node*, as in the paper.

The data set does not come with probi. If the folder named by the environment variable
``PROBI_DATA`` has a file ``covertype.parquet``, it is used; if not, **made-up data of
the same shape** takes its place, and the picture says so.
"""

import os
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

import probi

plt.style.use("probi.report.gallery")
# %%
# The stand-in has as many rows, ten measured columns and 44 of zeros and ones, and
# neighbours that are alike; nothing else of it is true.
N_ROWS = 581_012


def stand_in():
    """Rows of made-up land, of which 50 at a time are neighbours."""
    rng = np.random.default_rng(0)
    land = rng.normal(size=(N_ROWS // 50 + 1, 4)) * [1500, 1000, 500, 300]
    land = np.repeat(land, 50, axis=0)[:N_ROWS]
    measured = land @ rng.normal(size=(4, 10)) / 2 + 60 * rng.normal(size=(N_ROWS, 10))
    flags = land @ rng.normal(size=(4, 44)) > 3000
    return np.concatenate([measured, flags], axis=1).astype(np.float32)


path = Path(os.environ.get("PROBI_DATA", "data")) / "covertype.parquet"
if path.is_file():
    name = "Covertype"
    table = pq.read_table(path).drop_columns(["Cover_Type"])
    columns = [column.to_numpy().astype(np.float32) for column in table.columns]
    rows = np.column_stack(columns)
else:
    name = "Made-up stand-in for Covertype"
    rows = stand_in()
nodes = probi.Nodes.from_groups(rows, size=10)
print(name)
print(nodes)

# %%
# The yardstick: centers found from all nodes, with two starts instead of the usual ten,
# so that it does not take long.
K = 10
start = time.perf_counter()
full = probi.solve(nodes, n_clusters=K, n_init=2, random_state=0)
full_seconds = time.perf_counter() - start
print(full)
print(f"took {full_seconds:.1f} s")

# %%
# Summaries of several sizes, two of each. Times are for reading all nodes and for
# solving the summary; the cost is the exact one of the centers on **all** nodes,
# compared with the yardstick. What is called for the first time is compiled, which is
# not to be timed: so a small summary comes first.
probi.Summary(n_clusters=K, size=100, random_state=0).update(nodes[:2000])
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
read_seconds, solve_seconds = reading.mean(axis=1), solving.mean(axis=1)
print("size  read, s  solve, s  above, %")
for row in zip(sizes, read_seconds, solve_seconds, above.mean(axis=1), strict=True):
    print("{:4d} {:8.2f} {:9.2f} {:9.2f}".format(*row))

# %%
# The larger the summary, the nearer its centers come to those of all the data. Both
# together, reading and solving it, take a fraction of the time, and memory hardly grows
# with the data. Times are those of the machine that made this page, and the
# yardstick had only two starts.
#
# The picture
# -----------
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.9), width_ratios=[1.15, 1])
title = f"{name}: {len(nodes):,} nodes, {nodes.n_features} features, {K} clusters"
figure.suptitle(title, x=0.01, ha="left", weight="bold")
style = {"va": "center", "weight": "bold", "textcoords": "offset points"}
left.axhline(0, color="C1", linewidth=2)
left.annotate("all nodes", (sizes[0], 0), (0, -9), color="C1", **style)
left.plot(sizes, above.mean(axis=1), color="C0", linewidth=2)
for column in above.T:
    left.scatter(sizes, column, s=28, color="C0", alpha=0.7, linewidths=0)
left.set(xscale="log", xticks=sizes, xticklabels=[f"{size:,}" for size in sizes])
left.set(xlabel="nodes in the summary", ylabel="above the cost with all nodes, %")
left.set_ylim(bottom=-0.12 * above.max())
left.minorticks_off()
left.grid(axis="y")
left.set_title("Cost on all the data")

bars = [f"{size:,}" for size in sizes] + [f"all {len(nodes):,}"]
right.barh(bars[:-1], read_seconds, color="#9fb3c8", height=0.7)
right.barh(bars[:-1], solve_seconds, left=read_seconds, color="C0", height=0.7)
right.barh(bars[-1:], [full_seconds], color="C1", height=0.7)
last = len(sizes) - 1
end = read_seconds[-1] + solve_seconds[-1], last
read = right.annotate("read", end, (6, 0), color="#6f8aa6", **style)
then = "and solve a summary"
right.annotate(then, (1, 0.5), (4, 0), xycoords=read, color="C0", **style)
right.annotate("solve all nodes", (0, last + 1), (6, 0), color="white", **style)
right.tick_params(axis="y", length=0)
right.spines["left"].set_visible(False)
right.set(xlabel="seconds")
right.set_title("Time")
plt.show()
