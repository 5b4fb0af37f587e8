"""
Many sites, one answer
======================

Sixteen weather stations keep their own records and cannot send them all. Each makes a
*summary* and sends that: a few weighted nodes in one file. Summaries merge into one of
all the data, in any order and to the same bytes, and the centers found from it serve
everybody. What they cost on all the data, which nobody has in one place, comes with a
standard error.

The stations differ: each sees mostly the weather of its own region, so its own centers
are good for itself only.
"""

import matplotlib.pyplot as plt
import numpy as np

import probi

plt.style.use("probi.report.gallery")
INK, MUTED = "#1f2733", "#667080"
BRIGHT = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]
# %%
# A node is an hour. Its realizations are six measurements of temperature and relative
# humidity. There are eight kinds of weather, and a station knows about three of them
# well.
rng = np.random.default_rng(3)
KINDS = np.array(
    [[1, 80], [8, 58], [13, 84], [18, 44], [23, 72], [28, 30], [31, 58], [36, 14]],
    dtype=float,
)
N_STATIONS, N_HOURS = 16, 45_000


def hours_at(station):
    """Hours of a station, as nodes."""
    usual = np.abs(np.arange(8) - (station + 0.5) * 8 / N_STATIONS + 0.5) < 1.6
    kind = rng.choice(8, size=N_HOURS, p=rng.dirichlet(0.02 + 4.0 * usual))
    middle = KINDS[kind] + rng.normal(scale=(1.3, 3.5), size=(N_HOURS, 2))
    errors = rng.normal(scale=(0.8, 2.0), size=(N_HOURS, 6, 2))
    return probi.Nodes.from_dense(middle[:, None] + errors)


data = [hours_at(station) for station in range(N_STATIONS)]

# %%
# At the stations. The shard number keeps the random numbers of the stations apart. Each
# also finds centers for itself.
sent, own_centers = [], []
for station, hours in enumerate(data):
    summary = probi.Summary(n_clusters=8, size=800, random_state=0, shard=station)
    summary.update(hours)
    sent.append(summary.to_bytes())
    own = probi.solve(summary, n_clusters=8, n_init=4, random_state=0)
    own_centers.append(own.centers)

# %%
# What is sent hardly grows with what was read. A summary along the way:
summary, n_read, n_bytes = probi.Summary(n_clusters=8, size=800, random_state=0), [], []
for start in range(0, N_HOURS, 1500):
    summary.update(data[0][start : start + 1500])
    n_read.append(start + 1500)
    n_bytes.append(len(summary.to_bytes()))
raw_bytes = data[0].points.nbytes
print(f"at most {max(n_bytes) / 1e6:.1f} MB; the points have {raw_bytes / 1e6:.1f} MB")

# %%
# In the middle, where no hour is ever seen.
merged = probi.Summary.from_bytes(sent[0])
for message in sent[1:]:
    merged.merge(probi.Summary.from_bytes(message))
result = probi.solve(merged, n_clusters=8, random_state=0)
print(merged)
print(result)

# %%
# ``evaluate`` says what any centers cost on all the data, so those of the stations can
# be judged as well.
evaluations = [merged.evaluate(centers) for centers in own_centers]
times = np.array([evaluation.cost for evaluation in evaluations]) / result.cost
print(f"those of one station cost {times.min():.1f} to {times.max():.1f} times as much")

# %%
# Was the estimate right? Only here can we look, because the data of all the stations is
# in one place after all.
exact = sum(probi.expected_cost(hours, result.centers) for hours in data)
off = (exact - result.cost) / result.standard_error
print(f"estimate {result.cost:,.0f} ± {result.standard_error:,.0f}")
print(f"exact    {exact:,.0f}, {off:+.1f} standard errors from the estimate")
n_sent, n_all = sum(map(len, sent)), N_STATIONS * raw_bytes
print(f"sent by all: {n_sent / 1e6:.1f} MB instead of {n_all / 1e6:.1f} MB")

# %%
# The picture
# -----------
# Left: the coreset after the merge, larger marks for larger weights, and the eight
# centers. Right: what centers cost on the data of all stations, with bars of two
# standard errors to each side.
figure, axes = plt.subplot_mosaic(
    [["weather", "costs"], ["bytes", "bytes"]],
    figsize=(7, 6.4),
    height_ratios=[2.6, 1],
    width_ratios=[1.1, 1],
)
coreset = merged.coreset()
medians, _ = probi.one_medians(coreset)
by_warmth = np.argsort(np.argsort(result.centers[:, 0]))
colors = np.array([*BRIGHT, "#bbbbbb", MUTED])[by_warmth]
shades = colors[probi.assign(coreset, result.centers)]
axis = axes["weather"]
axis.scatter(*medians.T, s=0.04 * coreset.weights, c=shades, alpha=0.55, linewidths=0)
axis.scatter(*result.centers.T, s=90, c=colors, edgecolors="white", linewidths=1.8)
axis.set(xlabel="temperature, °C", ylabel="relative humidity, %", ylim=(0, 102))
axis.set_title(f"{merged.n_nodes:,} hours in {len(coreset)} nodes")

axis = axes["costs"]
order = np.argsort(times)
alone = np.array([tuple(evaluations[station]) for station in order]) / 1e6
dots = {"linestyle": "none", "marker": "o", "markersize": 5, "capsize": 2.5}
axis.errorbar(alone[:, 0], range(N_STATIONS), xerr=2 * alone[:, 1], color="C1", **dots)
together, error = result.cost / 1e6, result.standard_error / 1e6
axis.errorbar(together, -1.6, xerr=2 * error, color="C0", **dots)
axis.plot(exact / 1e6, -1.6, marker="|", markersize=15, color=INK)
bold = {"textcoords": "offset points", "va": "center", "weight": "bold"}
axis.annotate("merged; line: exact", (together, -1.6), (12, 0), color="C0", **bold)
spot = alone[10, 0], 10
axis.annotate("each station alone", spot, (-16, 0), ha="right", color="C1", **bold)
axis.set(xlim=(0, None), ylim=(-2.8, N_STATIONS), yticks=[])
axis.set_xlabel("expected cost on all the data, millions")
axis.spines["left"].set_visible(False)
axis.set_title("Centers of all, and of one")

axis = axes["bytes"]
hours_read = np.array(n_read) / 1e3
all_points = np.array(n_read) * raw_bytes / N_HOURS
for values, color, text in ((all_points, "C1", "points"), (n_bytes, "C0", "summary")):
    axis.plot(hours_read, np.array(values) / 1e6, color=color, linewidth=2)
    end = hours_read[-1] + 0.6, values[-1] / 1e6
    axis.annotate(text, end, va="center", annotation_clip=False)
axis.set(xlim=(0, hours_read[-1]), ylim=(0, None))
axis.set(xlabel="hours read by a station, thousands", ylabel="MB to send")
axis.grid(axis="y")
plt.show()
