"""
Forecasts of a hurricane
========================

Hurricane Otis hit Acapulco on 25 October 2023. Four times a day before that, the GEFS
ensemble had computed its future 31 times, from slightly different starts. Where will
the storm be in 48 hours? There are 31 answers, and together they are **one** uncertain
object: a *node* with 31 *realizations* of probability 1/31 each.

This script clusters all those nodes, each as a whole, and asks how much of the cost is
the forecasts' own doubt.
"""

from importlib.resources import files

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from matplotlib.patheffects import withStroke

import probi
from probi.io import Transform
from probi.io.demo_data import otis_table
from probi.report import plot_clusters

plt.style.use("probi.report.gallery")
INK = "#1f2733"
# %%
# The forecasts come with probi, as a table in the *long* layout: one row a realization.
# The columns ``init`` (start of the forecast) and ``tau`` (hours ahead) name the node.
degrees = probi.Nodes.from_table(
    otis_table(), layout="long", id=["init", "tau"], features=["lon", "lat"]
)
print(degrees)

# %%
# The mass is smaller than the number of nodes: a member of the ensemble that has lost
# the storm is probability that is not there.
#
# Degrees are not distances, so longitude and latitude become points on a sphere, in
# kilometres. The clustering happens there, and ``space.inverse`` leads back.
space = Transform(("lon", "lat"), lonlat=("lon", "lat"))
nodes = space.nodes(degrees)
result = probi.solve(nodes, n_clusters=6, random_state=7)
print(result)
print(f"Of the cost, {result.spread_cost / result.cost:.0%} is spread.")

# %%
# The spread of a node is its expected distance to the best single position that one
# could name for it: how unsure a forecast is of itself. No centers can change that.
_, spreads = probi.one_medians(nodes)
hours = degrees.ids["tau"]
ahead = np.arange(0, 169, 12)
low, middle, high = np.transpose(
    [np.percentile(spreads[hours == h], [25, 50, 75]) for h in ahead]
)
for h in (0, 48, 120):
    spread, seen = np.median(spreads[hours == h]), nodes.mass[hours == h].mean()
    print(f"{h:3d} hours ahead: spread {spread:3.0f} km; {seen:.0%} of members see it")

# %%
# The same file holds where the storm really was: ``CARQ``, the analysis made at the
# time.
with (files("probi") / "data" / "hurricane_otis_adeck.parquet").open("rb") as file:
    deck = pq.read_table(file, columns=["init", "tech", "tau", "lon", "lat", "vmax"])
analysis = (pc.field("tech").cast("string") == "CARQ") & (pc.field("tau") == 0)
# Several rows a time, with the same position: one of them is enough.
track = {row["init"]: row for row in deck.filter(analysis).to_pylist()}
worst = max(track.values(), key=lambda row: row["vmax"])
print("At its worst: {vmax} knots at {lat:.1f} north, {lon:.1f} east".format(**worst))

# %%
# The picture
# -----------
# Faint dots are realizations, solid ones the medians of nodes, numbered discs the six
# centers; a dashed ellipse is one standard deviation of the realizations of a cluster.
# The black line is what happened.
figure, (chart, strip) = plt.subplots(2, 1, figsize=(7, 7.4), height_ratios=[3.3, 1])
names = ["lon", "lat"]
plot_clusters(result, nodes, features=names, original=space.inverse, ax=chart)
halo = [withStroke(linewidth=3.5, foreground="white")]
text_style = {"textcoords": "offset points", "zorder": 6, "path_effects": halo}
path = np.array([(row["lon"], row["lat"]) for row in track.values()])
chart.plot(*path.T, color="white", linewidth=4.5, zorder=4)
chart.plot(*path.T, color=INK, linewidth=2, zorder=4)
for init, text, shift, side in (
    (2023101818, "18 October", (9, -4), "left"),
    (2023102300, "23 October", (-9, 0), "right"),
    (worst["init"], f"25 October, {worst['vmax']} knots", (9, 20), "left"),
):
    spot = track[init]["lon"], track[init]["lat"]
    chart.scatter(*spot, s=50, color=INK, edgecolors="white", zorder=6)
    chart.annotate(text, spot, shift, ha=side, va="center", weight="bold", **text_style)
for city, lon, lat in (
    ("Acapulco", -99.88, 16.86),
    ("Puerto Escondido", -97.07, 15.86),
    ("Manzanillo", -104.32, 19.05),
):
    chart.scatter(lon, lat, s=26, marker="D", color="white", edgecolors=INK, zorder=7)
    chart.annotate(city, (lon, lat), (7, 3), **text_style)
chart.set_aspect(1 / np.cos(np.radians(14)), adjustable="box")
chart.set(xlim=(-110, -88), ylim=(6, 20.5), xticks=range(-110, -88, 5))
chart.set(xlabel="longitude, degrees east", ylabel="latitude, degrees north")
title = f"Otis as forecast: {len(nodes)} nodes, {nodes.n_realizations:,} realizations"
chart.set_title(f"{title}, {len(result.centers)} clusters")

strip.fill_between(ahead, low, high, color="C0", alpha=0.25, linewidth=0)
strip.plot(ahead, middle, color="C0", linewidth=2)
strip.set(xlim=(0, 168), ylim=(0, None), xticks=ahead[::2])
strip.set(xlabel="hours ahead", ylabel="spread, km")
strip.set_title("How unsure the forecasts were: spread of a node, median and quartiles")
plt.show()
