"""
A live stream that drifts
=========================

A summary remembers everything it has read, and gives all of it the same weight. That is
right as long as the world stands still. When clusters move, there are two ways to
forget. Either the past fades: ``summary.scale(0.8)`` between two batches takes a fifth
of the weight from all that came before. Or it is cut off: a :class:`probi.Window` keeps
a summary for each of the last periods and answers for those alone.

Here three fleets of vehicles report GPS fixes with error ellipses, hour after hour. Two
fleets move slowly; the third stands still and after 30 hours is suddenly elsewhere.
"""

import matplotlib.pyplot as plt
import numpy as np

import probi

plt.style.use("probi.report.gallery")
MUTED, LINE = "#667080", "#d9dde3"
# %%
# Where the fleets are, in kilometres, and what they report in an hour: 100 positions
# each, every one a node whose realizations stand for its error ellipse.
rng = np.random.default_rng(8)
HOURS = np.arange(60)
turn = np.pi * HOURS / 59
north = np.column_stack([-20 * np.cos(turn), 12 * np.sin(turn)])
south = np.column_stack([16 * np.cos(turn), -6 - 9 * np.sin(turn)])
third = np.where(HOURS[:, None] < 30, [0.0, -2.0], [-14.0, -22.0])
fleets = np.stack([north, south, third], axis=1)


def hour_of_fixes(hour):
    """Vehicles around the middle of their fleet, with errors of 1 to 3 km."""
    places = np.repeat(fleets[hour], 100, axis=0) + rng.normal(scale=1.5, size=(300, 2))
    errors = rng.uniform(1, 3, size=300)
    return probi.Nodes.from_gaussian(places, errors**2)


# %%
# All three read the same stream and are solved after every hour.
KEPT = 0.8
remembering = probi.Summary(n_clusters=3, random_state=0)
fading = probi.Summary(n_clusters=3, random_state=0)
window = probi.Window(period=1, n_periods=5, n_clusters=3, random_state=0)
found = {"remembers all": [], "fades": [], "last 5 hours": []}
for hour in HOURS:
    fixes = hour_of_fixes(hour)
    remembering.update(fixes)
    fading.scale(KEPT)
    fading.update(fixes)
    window.update(fixes, time=hour)
    summaries = remembering, fading, window.summary()
    for name, summary in zip(found, summaries, strict=True):
        result = probi.solve(summary, n_clusters=3, n_init=4, random_state=0)
        found[name].append(result.centers)
print(remembering)
print(fading)
print(window)

# %%
# The mass says how much the fading one still holds: in the long run 1 / (1 − 0.8) hours
# of reports.
print(f"mass {fading.mass:.0f}, which is {fading.mass / 300:.2f} hours")


# %%
# How far are the centers from the fleets? A center may serve two fleets while another
# serves none, so this is the mean distance from each fleet to its nearest center.
def off_by(centers, hour):
    """Mean distance from the fleets to the nearest center, km."""
    return probi.expected_cost(probi.Nodes.from_points(fleets[hour]), centers) / 3


off = {
    name: np.array([off_by(c, h) for c, h in zip(centers, HOURS, strict=True)])
    for name, centers in found.items()
}
for name, values in off.items():
    first, last = values[:10].mean(), values[-10:].mean()
    print(
        f"{name}: off by {first:.1f} km in the first ten hours, {last:.1f} in the last"
    )

# %%
# The picture
# -----------
# Above: grey lines are the ways of the fleets, dots the centers after every hour. Time
# runs from light to dark.
quiet = {"textcoords": "offset points", "color": MUTED}
figure, axes = plt.subplot_mosaic(
    [["remembers all", "fades"], ["off", "off"]],
    figsize=(7, 6.1),
    height_ratios=[1.25, 1],
)
for name, color, title in (
    ("remembers all", "Reds", "All hours count alike"),
    ("fades", "Blues", f"Scaled by {KEPT} every hour"),
):
    axis = axes[name]
    for way in (north, south):
        axis.plot(*way.T, color=LINE, linewidth=7, solid_capstyle="round", zorder=1)
    axis.scatter(*third.T, s=300, color=LINE, linewidths=0, zorder=1)
    for hour, centers in zip(HOURS, found[name], strict=True):
        shade = plt.get_cmap(color)(0.25 + 0.7 * hour / 59)
        axis.scatter(*centers.T, s=16, color=shade, linewidths=0, zorder=2 + hour / 60)
    for text, place in (("hours 0 to 29", third[0]), ("hours 30 to 59", third[-1])):
        axis.annotate(text, place, (0, -20), ha="center", **quiet)
    axis.set(xlim=(-26, 26), ylim=(-32, 15), aspect="equal", xlabel="east, km")
    axis.set_title(title)
axes["remembers all"].set_ylabel("north, km")

axis = axes["off"]
for (name, values), color in zip(off.items(), ("C1", "C0", "C2"), strict=True):
    axis.plot(HOURS, values, color=color, linewidth=2)
    shift = {"fades": 5, "last 5 hours": -5}.get(name, 0)
    spot = 60, values[-1]
    beside = {"textcoords": "offset points", "annotation_clip": False}
    axis.annotate(name, spot, (0, shift), va="center", color=color, **beside)
axis.axvline(30, color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
axis.annotate("the third fleet jumps", (30, 17), (-5, -4), ha="right", **quiet)
axis.set(xlim=(0, 59), ylim=(0, None), xticks=range(0, 60, 10))
axis.set(xlabel="hour", ylabel="fleet to nearest center, km")
axis.grid(axis="y")
axis.set_title("How far the centers are off")
plt.show()
