"""Where will the storm be? Cluster the ensemble forecasts of hurricane Otis.

A node is the storm at one hour of one forecast. Its realizations are the positions that the 31 members of the GEFS
ensemble see, each with probability 1/31; a member that has lost the storm is mass that is not there. No node is a
point: at day ten the members are a thousand kilometres apart.
"""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import probi

DATA = Path(__file__).parent / "data" / "hurricane_otis_adeck.parquet"
PICTURE = Path("results") / "otis.png"
N_CLUSTERS = 6
N_MEMBERS = 31
KM_A_DEGREE = 111.2


def read_positions() -> tuple[np.ndarray, np.ndarray]:
    """Longitudes and latitudes of all members (n, 2), start and lead hour of each (n, 2), sorted by node."""
    table = pq.read_table(DATA, columns=["init", "tau", "tech", "lon", "lat"]).to_pydict()
    rows = {}
    for init, tau, tech, lon, lat in zip(*table.values(), strict=True):
        is_member = tech == "AC00" or (tech.startswith("AP") and tech[2:].isdigit())
        if is_member and tau >= 0 and lon is not None and lat is not None:
            rows[init, tau, tech] = lon, lat  # up to three rows a member, for three wind radii: the same position
    keys = sorted(rows)
    return np.array([rows[key] for key in keys]), np.array([key[:2] for key in keys])


def to_km(lonlat: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """Degrees are not distances: project onto the plane that touches the globe at the origin."""
    scale = KM_A_DEGREE * np.array([np.cos(np.radians(origin[1])), 1.0])
    return (lonlat - origin) * scale


def to_degrees(km: np.ndarray, origin: np.ndarray) -> np.ndarray:
    return km / (KM_A_DEGREE * np.array([np.cos(np.radians(origin[1])), 1.0])) + origin


def make_nodes(lonlat: np.ndarray, keys: np.ndarray, origin: np.ndarray) -> probi.Nodes:
    starts = np.flatnonzero(np.any(keys[1:] != keys[:-1], axis=1)) + 1
    offsets = np.concatenate([[0], starts, [len(keys)]])
    chances = np.full(len(keys), 1.0 / N_MEMBERS)
    return probi.Nodes(to_km(lonlat, origin), chances, offsets, ids=[f"{a}+{h}h" for a, h in keys[offsets[:-1]]])


def show(nodes: probi.Nodes, result: probi.Result, hours: np.ndarray, origin: np.ndarray) -> None:
    print(f"{nodes}\n{result}\n")
    print("cluster   center            storms   members   lead hours   spread    to center")
    clusters = result.clusters
    for c, (lon, lat) in enumerate(to_degrees(result.centers, origin)):
        inside = hours[result.labels == c]
        present = clusters.mass[c] / clusters.count[c]
        east_west = f"{abs(lon):.1f}{'W' if lon < 0 else 'E'}"
        print(
            f"{c:>5}     {lat:5.1f}N {east_west:>7}   {clusters.count[c]:>6}   {present:>6.0%}   "
            f"{np.median(inside):>7.0f} h   {clusters.spread[c] / clusters.mass[c]:>6.0f} km"
            f"   {clusters.cost[c] / clusters.mass[c]:>6.0f} km"
        )
    spread = clusters.spread.sum()
    print(
        f"\n{spread / result.cost:.0%} of the cost is the forecasts' own spread, which no clustering can change; "
        f"{1 - spread / result.cost:.0%} is distance between forecasts and centers."
    )


def draw(nodes: probi.Nodes, result: probi.Result, origin: np.ndarray) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colors = np.array(["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"])
    figure, axes = plt.subplots(figsize=(9, 5.2), layout="constrained")
    owner = np.repeat(result.labels, np.diff(nodes.offsets))
    realizations = to_degrees(nodes.points, origin)
    axes.scatter(*realizations.T, s=4, c=colors[owner], alpha=0.3, linewidths=0)
    medians, _ = probi.one_medians(nodes)
    axes.scatter(*to_degrees(medians, origin).T, s=9, c=colors[result.labels], alpha=0.9, linewidths=0)
    for c, (lon, lat) in enumerate(to_degrees(result.centers, origin)):
        radius = result.clusters.spread[c] / result.clusters.mass[c] / KM_A_DEGREE
        ring = plt.Circle((lon, lat), radius, fill=False, color="black", linewidth=1.2, linestyle="--")
        axes.add_patch(ring)
        axes.scatter(lon, lat, s=170, marker="o", color="white", edgecolors="black", zorder=3)
        axes.annotate(str(c), (lon, lat), ha="center", va="center", fontsize=9, zorder=4)
    axes.set(aspect=1 / np.cos(np.radians(origin[1])))
    axes.yaxis.set_major_locator(matplotlib.ticker.MultipleLocator(5))
    axes.xaxis.set_major_formatter(lambda lon, _: f"{abs(lon):.0f}°W")
    axes.yaxis.set_major_formatter(lambda lat, _: f"{lat:.0f}°N")
    axes.set_title(
        f"Hurricane Otis: {len(nodes)} uncertain positions, {len(result.centers)} centers\n"
        "faint: where ensemble members see the storm; solid: medians; dashed: mean spread",
        fontsize=11,
    )
    axes.grid(alpha=0.3)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=130)
    print(f"\nPicture: {PICTURE.resolve()}")


def main() -> None:
    lonlat, keys = read_positions()
    origin = np.array([np.median(lonlat[:, 0]), np.median(lonlat[:, 1])])
    nodes = make_nodes(lonlat, keys, origin)
    result = probi.solve(nodes, N_CLUSTERS, random_state=7)
    hours = np.array([int(name.split("+")[1][:-1]) for name in nodes.ids])
    show(nodes, result, hours, origin)
    draw(nodes, result, origin)


if __name__ == "__main__":
    main()
