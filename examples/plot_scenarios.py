"""
Scenarios of a forecast
=======================

An ensemble forecast is fifty answers to one question. Nobody reads fifty maps: *which
few courses can the weather take, how likely is each, and what does it look like?*

Here the **members are the nodes**. ``ds.probi.scenarios`` clusters them, and returns
for each scenario its probability, its center as a field, and the real member that
represents it: a map that the model has computed, not an average that blurs a storm.
"""

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import probi.xarray  # adds .probi to DataArray and Dataset

plt.style.use("probi.report.gallery")
INK = "#1f2733"
BRIGHT = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]
# %%
# The forecast: 50 members of the air pressure at sea level, in three days. A low comes
# from the west. In half of the members it moves to Scandinavia, in a third to the
# Alps, in the others it stays at sea.
rng = np.random.default_rng(3)
latitude, longitude = np.arange(70.0, 37.0, -1.0), np.arange(-24.0, 27.0, 1.5)
days, members = np.array([1, 2, 3]), np.arange(1, 51)
regime = np.repeat([0, 1, 2], [25, 16, 9])
rng.shuffle(regime)
COURSES = np.array([[5.0, 17.0], [-3.0, 17.0], [1.0, 1.0]])  # north and east per day


def low(member, day):
    """Pressure around the low of a member."""
    north, east = [53.0, -17.0] + COURSES[regime[member]] * 0.75 * (day - 1)
    north, east = rng.normal([north, east], 0.8 + 0.7 * day)
    far = np.hypot(
        latitude[:, None] - north,
        (longitude - east) * np.cos(np.deg2rad(latitude))[:, None],
    )
    depth = rng.normal(28, 3)
    return 1016 - depth * np.exp(-((far / 6.5) ** 2)) + rng.normal(0, 1)


forecast = xr.DataArray(
    [[low(member, day) for day in days] for member in range(50)],
    coords={
        "number": members,
        "day": days,
        "latitude": latitude,
        "longitude": longitude,
    },
    dims=("number", "day", "latitude", "longitude"),
    name="pressure",
    attrs={"units": "hPa"},
)

# %%
# Days and places are the features of a member; cells near the pole are smaller.
scenarios = forecast.probi.scenarios(3, weights="cos_latitude", random_state=0)
print(scenarios)

# %%
# Members are in the scenario of their own regime, and the representatives are members.
for s in scenarios.scenario.values:
    inside = regime[scenarios.label.values == s]
    print(
        f"scenario {s}: probability {scenarios.probability.values[s]:.0%}, "
        f"represented by member {scenarios.representative.values[s]}, "
        f"members by regime {np.bincount(inside, minlength=3)}"
    )

# %%
# **Places as nodes.** The other question: *which places can expect the same, and how
# sure is that?* Then a place is the node, and the 50 members are its realizations.
places = forecast.probi.cluster(4, node=("latitude", "longitude"), random_state=0)
print(places.label.dims, "centers:", places.pressure.dims, places.pressure.units)
sure = places.membership.max("cluster")

# %%
# The picture
# -----------
# Above: the third day of the three representatives, with the lows of all members of the
# scenario as dots. Below: what an average over all members shows instead, and the map
# of places; where it is pale, less than 60 % of the members agree with the color.
figure, axes = plt.subplots(2, 3, figsize=(7.4, 5.8))
look = {"cmap": "Blues_r", "vmin": 986, "vmax": 1018}
real = forecast.sel(number=scenarios.representative, day=3)
for s, axis in enumerate(axes[0]):
    shade = axis.pcolormesh(longitude, latitude, real[s], **look)
    inside = forecast[scenarios.label.values == s].sel(day=3)
    deepest = inside.stack(place=("latitude", "longitude")).idxmin("place").values
    north, east = np.array([*deepest]).T
    axis.scatter(east, north, s=9, color=BRIGHT[3], edgecolors=INK, linewidths=0.4)
    axis.set_title(
        f"{scenarios.probability.values[s]:.0%}: member {int(real.number[s])}"
    )
mean = forecast.sel(day=3).mean("number")
axes[1, 0].pcolormesh(longitude, latitude, mean, **look)
axes[1, 0].set_title("Mean of all members")
below = {"location": "bottom", "shrink": 0.5, "aspect": 40}
figure.colorbar(shade, ax=axes, label="air pressure, hPa", **below)

colors = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in BRIGHT]) / 255
fade = np.clip((sure.values - 0.4) / 0.5, 0.15, 1.0)[..., None]
shown = fade * colors[places.label.values] + (1 - fade)
axes[1, 1].pcolormesh(longitude, latitude, shown)
axes[1, 1].set_title("Places that are alike")
for c in range(4):
    axes[1, 2].plot(days, places.pressure[c], color=BRIGHT[c], marker="o", linewidth=2)
axes[1, 2].set(title="Their centers, hPa", xlabel="day", xticks=days)
axes[1, 2].set_yticks([1000, 1005, 1010, 1015])
axes[1, 2].grid(axis="y")
for axis in axes.flat[:5]:
    axis.set(
        aspect=1 / np.cos(np.deg2rad(50)), xticks=(-20, 0, 20), yticks=(40, 50, 60)
    )
for axis in axes[:, 0]:
    axis.set_ylabel("latitude")
plt.show()
