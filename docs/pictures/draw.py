"""Pictures of "How it works" and of the guide, drawn of what the code computes: python docs/pictures/draw.py [name...].

Colours are of middle brightness and the background is empty, so that one picture serves light and dark pages.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.image
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

import probi
from probi.coreset import importance
from probi.medians import SPREAD_TOL, certified_medians

IMAGES = Path(__file__).parents[1] / "images"
GREY, BLUE, ORANGE, GREEN, PURPLE, RED = "#7d8590", "#3b82c4", "#d9822b", "#2e9e6b", "#9b6fc8", "#d1495b"
COLOURS = (BLUE, ORANGE, GREEN)

STYLE = {
    "svg.hashsalt": "probi", "svg.fonttype": "none",
    "font.size": 10.5, "text.color": GREY, "axes.labelcolor": GREY, "axes.edgecolor": GREY,
    "xtick.color": GREY, "ytick.color": GREY, "axes.spines.top": False, "axes.spines.right": False,
    "axes.facecolor": "none", "figure.facecolor": "none", "savefig.facecolor": "none", "legend.frameon": False,
    "axes.titlesize": 10.5, "axes.titlecolor": GREY,
}  # fmt: skip


def figure(width=5.4, height=3.2, columns=1, **options):
    made = Figure(figsize=(width, height), layout="constrained")
    return made, made.subplots(1, columns, squeeze=False, **options)[0]


def bare(axes):
    axes.set_axis_off()
    return axes


def problem():
    """Nodes, realizations and centers: each node goes to one center as a whole."""
    rng = np.random.default_rng(5)
    places = np.array([[0.0, 0.0], [5.0, 0.6], [2.4, 3.6]])
    middles = np.repeat(places, 5, axis=0) + rng.normal(scale=0.75, size=(15, 2))
    points = middles[:, None] + rng.normal(scale=0.22, size=(15, 6, 2))
    points[2, 0], points[11, 3] = [3.2, 1.5], [4.9, 2.9]  # realizations that lie among another cluster
    nodes = probi.Nodes.from_dense(points)
    result = probi.solve(nodes, 3, random_state=0)
    medians, _ = probi.one_medians(nodes)
    made, (axes,) = figure(5.4, 3.5)
    for i in range(len(nodes)):
        colour = COLOURS[result.labels[i]]
        for point in points[i]:
            axes.plot(*zip(medians[i], point, strict=True), color=colour, linewidth=0.8, alpha=0.7, zorder=1)
        axes.scatter(*points[i].T, s=14, color=colour, zorder=2, linewidths=0)
    axes.scatter(*result.centers.T, marker="X", s=130, color=RED, zorder=3, edgecolors="white", linewidths=0.8)
    axes.annotate("a center", result.centers[0], (14, -16), textcoords="offset points", color=RED)
    axes.annotate(
        "one node:\nsix realizations", points[2, 0], (-62, 22), textcoords="offset points",
        arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.8},
    )  # fmt: skip
    bare(axes).set_aspect("equal")
    return made


def bounds_of_steps(points, n_steps):
    """Expected distance at each Weiszfeld step, and what the optimum is proven to be at least; equal probabilities."""
    gravity = points.mean(axis=0)
    y, upper, lower = gravity, [], []
    for _ in range(n_steps):
        distances = np.linalg.norm(points - y, axis=1)
        pull = ((points - y) / distances[:, None]).mean(axis=0)
        upper.append(distances.mean())
        lower.append((distances.mean() - pull @ (gravity - y)) / (1.0 + np.linalg.norm(pull)))
        y = y + pull / (1.0 / distances).mean()
    return np.array(upper), np.maximum.accumulate(lower)


def certificate():
    """What a median costs, and what it can cost at least, step by step."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(7, 2)), [[7.0, 4.0], [9.0, -3.0], [-6.0, 8.0]]])
    upper, lower = bounds_of_steps(points, 12)
    made, (axes,) = figure(5.2, 2.7)
    steps = np.arange(len(upper))
    axes.fill_between(steps, lower, upper, color=BLUE, alpha=0.18, linewidth=0)
    axes.plot(steps, upper, "o-", color=ORANGE, markersize=4, label="expected distance at this step")
    axes.plot(steps, lower, "o-", color=BLUE, markersize=4, label="no point can have less")
    axes.set(xlabel="Weiszfeld steps from the center of gravity", ylabel="expected distance")
    axes.legend(loc="lower right")
    return made


def _distances_along(points, xs):
    centers = np.column_stack([xs, np.zeros(len(xs))])
    return probi.expected_distances(probi.Nodes.from_dense(points[None]), centers)[0]


def sandwich():
    """Two bounds of an expected distance that need the center of gravity alone."""
    rng = np.random.default_rng(1)
    made, both = figure(5.6, 2.9, columns=2, sharey=True)
    xs = np.linspace(-6, 6, 241)
    for axes, scale, title in zip(both, (0.5, 1.6), ("a tight node", "a wide node"), strict=True):
        points = rng.normal(scale=scale, size=(10, 2))
        gravity = points.mean(axis=0)
        variance = ((points - gravity) ** 2).sum(axis=1).mean()
        low = np.hypot(xs - gravity[0], gravity[1])
        high = np.sqrt(low**2 + variance)
        axes.fill_between(xs, low, high, color=BLUE, alpha=0.25, linewidth=0, label="bounds")
        axes.plot(xs, _distances_along(points, xs), color=ORANGE, label="D(c)")
        axes.plot(points[:, 0], np.zeros(10), "|", color=GREY, markersize=9)
        axes.set(title=title, xlabel="place of the center c")
    both[0].set_ylabel("expected distance")
    both[0].legend(loc="upper center", handlelength=1.2, bbox_to_anchor=(0.5, 0.95))
    return made


def lifted():
    """A node as one point: its median, lifted by its spread."""
    rng = np.random.default_rng(4)
    points = rng.normal(scale=1.5, size=(10, 2))
    nodes = probi.Nodes.from_dense(points[None])
    medians, spreads, _ = certified_medians(nodes, SPREAD_TOL)
    (y,), (s,) = medians, spreads
    xs = np.linspace(-6, 6, 241)
    made, (left, right) = figure(5.6, 2.8, columns=2)
    left.plot([-4, 4], [0, 0], color=GREY, linewidth=1)
    left.plot(points[:, 0], np.zeros(10), "|", color=GREY, markersize=9)
    left.plot([y[0], y[0]], [0, s], color=BLUE, linestyle=":", linewidth=1.2)
    left.plot([y[0], 3], [s, 0], color=ORANGE, linewidth=1.4)
    left.scatter([y[0]], [s], color=BLUE, s=40, zorder=3)
    left.scatter([3], [0], marker="X", color=RED, s=90, zorder=3)
    left.annotate("(y, s)", (y[0], s), (0, 8), textcoords="offset points", ha="center", color=BLUE)
    left.annotate("(c, 0)", (3, 0), (0, -16), textcoords="offset points", ha="center", color=RED)
    left.annotate("s", (y[0], s / 2), (-10, 0), textcoords="offset points", color=BLUE)
    bare(left).set(xlim=(-4.5, 4.5), ylim=(-1.0, s + 1.0), title="stand-in of a node")
    right.plot(xs, _distances_along(points, xs), color=ORANGE, label="D(c)")
    right.plot(xs, np.sqrt((xs - y[0]) ** 2 + y[1] ** 2 + s**2), "--", color=BLUE, label="of the stand-in")
    right.axhline(s, color=GREY, linewidth=0.8, linestyle=":")
    right.annotate("spread", (-6, s), (2, -12), textcoords="offset points")
    right.set(xlabel="place of the center c", title="expected distance", ylim=(0, None))
    right.legend(loc="upper center", handlelength=1.6)
    return made


def _clustered(n, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.multinomial(n, [0.5, 0.3, 0.15, 0.05])
    places = [[0, 0], [5, 1], [1.5, 4.5], [7.5, 5.5]]
    return np.concatenate([
        rng.normal(place, scale, size=(size, 2))
        for place, scale, size in zip(places, (0.9, 0.7, 0.6, 0.4), sizes, strict=True)
    ])  # fmt: skip


def cells():
    """One reduce: cells of a tree, and the nodes that are chosen, by weight."""
    X = _clustered(400, 2)
    nodes = probi.Nodes.from_points(X)
    rng = np.random.default_rng(0)
    rows, n_columns = importance._rows([nodes])
    leaves, cell_of_leaf, *_ = importance._cells(rows, nodes.mass, n_columns, 64, 8, rng)
    cell_of = cell_of_leaf[leaves]
    chosen = importance.reduce([nodes], 64, 2, np.random.default_rng(0))
    made, (left, right) = figure(5.8, 2.9, columns=2, sharex=True, sharey=True)
    shades = np.array([BLUE, ORANGE, GREEN, PURPLE, RED, GREY, "#1aa3a3", "#b8860b"])
    left.scatter(*X.T, s=7, c=shades[cell_of % len(shades)], linewidths=0)
    right.scatter(*X.T, s=4, color=GREY, alpha=0.3, linewidths=0)
    right.scatter(*chosen.points.T, s=2.2 * chosen.mass, color=BLUE, alpha=0.75, linewidths=0)
    bare(left).set(title="400 nodes in eight cells", aspect="equal")
    bare(right).set(title="64 chosen ones, area by weight", aspect="equal")
    return made


def walk():
    """A systematic sample: a pick each time the sum of chances passes the next whole number."""
    chances = np.array([0.1, 0.15, 0.1, 0.3, 0.5, 0.35, 0.9, 0.4, 0.2, 0.15, 0.1, 0.25, 0.6, 0.4, 0.5])
    ends = np.cumsum(chances)
    offset = 0.55
    made, (axes,) = figure(5.6, 1.75)
    picks = np.arange(offset, ends[-1], 1.0)
    chosen = np.searchsorted(ends, picks)
    for i, (end, chance) in enumerate(zip(ends, chances, strict=True)):
        colour = ORANGE if i in chosen else BLUE
        axes.add_patch(Rectangle((end - chance + 0.012, 0), chance - 0.024, 1, color=colour, alpha=0.85, linewidth=0))
    for pick in picks:
        axes.annotate(
            "", (pick, 1.02), (pick, 1.75), arrowprops={"arrowstyle": "-|>", "color": GREY, "linewidth": 1.1}
        )  # fmt: skip
    axes.annotate("random start", (0, 1.95), color=GREY, ha="left", va="bottom", fontsize=9)
    axes.annotate("", (0, 1.85), (0.55, 1.85), arrowprops={"arrowstyle": "<->", "color": GREY})
    axes.annotate("then every whole step", (2.05, 1.95), color=GREY, ha="center", va="bottom", fontsize=9)
    axes.annotate("", (1.55, 1.85), (2.55, 1.85), arrowprops={"arrowstyle": "<->", "color": GREY})
    axes.annotate("nodes in the order of the tree, as wide as their chance", (2.5, -0.25), ha="center", va="top")
    bare(axes).set(xlim=(-0.02, 5.05), ylim=(-0.8, 2.5))
    return made


def _box(axes, x, y, width, height, text, colour, size=9.5):
    axes.add_patch(FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.08", facecolor=colour, edgecolor="none"
    ))  # fmt: skip
    axes.text(x + width / 2, y + height / 2, text, color="white", ha="center", va="center", fontsize=size)


def _arrow(axes, start, end):
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=10, color=GREY, linewidth=1.1))


def levels():
    """Merge & reduce: four coresets of one level become one of the next."""
    made, (axes,) = figure(5.6, 3.1)
    for i in range(9):
        x = i * 1.0
        _box(axes, x, 0, 0.86, 0.5, "leaf", GREY, 8.5)
        _arrow(axes, (x + 0.43, 0.53), (x + 0.43, 0.93))
        _box(axes, x + 0.13, 0.95, 0.6, 0.36, "", BLUE)
    for i in range(2):
        for j in range(4):
            _arrow(axes, (4 * i + j + 0.43, 1.34), (4 * i + 1.93, 1.98))
        _box(axes, 4 * i + 1.63, 2.0, 0.6, 0.36, "", BLUE)
    _box(axes, 9.0, 0, 0.5, 0.5, "…", GREY)
    axes.text(9.25, -0.12, "buffer", ha="center", va="top", fontsize=9)
    axes.text(4.4, -0.12, "the stream, in leaves of a fixed number of nodes", ha="center", va="top", fontsize=9)
    axes.text(9.75, 1.13, "level 0", va="center", fontsize=9)
    axes.text(9.75, 2.18, "level 1", va="center", fontsize=9)
    axes.text(9.75, 3.23, "level 2", va="center", fontsize=9)
    axes.text(5.9, 3.23, "…after sixteen leaves", va="center", ha="right", fontsize=9)
    axes.plot([6.1, 9.6], [3.23, 3.23], color=GREY, linestyle=":", linewidth=1)
    bare(axes).set(xlim=(-0.1, 11), ylim=(-0.5, 3.5))
    return made


def audit():
    """What a summary says its centers cost, for twenty seeds, and what they do cost."""
    rng = np.random.default_rng(2)
    where = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 7.0]])[rng.integers(3, size=20_000)] + rng.normal(size=(20_000, 2))
    nodes = probi.Nodes.from_dense(where[:, None] + rng.normal(scale=0.7, size=(20_000, 5, 2)))
    made, (axes,) = figure(5.4, 2.8)
    for seed in range(20):
        summary = probi.Summary(n_clusters=3, random_state=seed)
        summary.update(nodes)
        result = probi.solve(summary, 3, n_init=1, random_state=seed)
        truth = probi.expected_cost(nodes, result.centers)
        axes.errorbar(
            seed, 100 * (result.cost / truth - 1), 200 * result.standard_error / truth, fmt="o", color=BLUE,
            markersize=4, capsize=2, linewidth=1.1, label="audit sample ± 2 standard errors" if seed == 0 else None,
        )  # fmt: skip
        axes.plot(
            seed, 100 * (result.coreset_cost / truth - 1), "s", color=ORANGE, markersize=3.6,
            label="cost on the coreset" if seed == 0 else None,
        )  # fmt: skip
    axes.axhline(0, color=GREY, linewidth=1)
    axes.set(xlabel="seed", ylabel="% off the true cost", ylim=(-5.8, 7.4), xticks=range(0, 20, 5))
    axes.legend(loc="upper center", ncols=2, fontsize=9, columnspacing=1.0, handletextpad=0.4)
    return made


def road():
    """The whole way, from a stream to centers."""
    made, (axes,) = figure(5.6, 2.9)
    steps = (
        ("nodes of\na stream", GREY), ("median, spread,\nmass of each", BLUE), ("coresets,\nby level", BLUE),
        ("one\ncoreset", BLUE), ("centers", ORANGE),
    )  # fmt: skip
    places = (0.0, 1.75, 3.85, 5.75, 7.45)
    widths = (1.35, 1.7, 1.5, 1.3, 1.35)
    for i, ((text, colour), x, width) in enumerate(zip(steps, places, widths, strict=True)):
        _box(axes, x, 1.5, width, 0.85, text, colour, 9)
        if i:
            _arrow(axes, (places[i - 1] + widths[i - 1] + 0.02, 1.92), (x - 0.02, 1.92))
    _box(axes, 2.75, 0, 1.9, 0.75, "audit sample", GREEN, 9)
    _box(axes, 6.35, 0, 2.45, 0.75, "cost ± standard error", GREEN, 9)
    _arrow(axes, (2.6, 1.48), (3.3, 0.78))
    _arrow(axes, (4.67, 0.37), (6.33, 0.37))
    _arrow(axes, (8.1, 1.48), (7.7, 0.78))
    for x, text in ((1.6, "once a node"), (3.75, "reduce"), (5.65, "reduce"), (7.2, "solve")):
        axes.text(x - 0.0, 2.5, text, ha="center", va="bottom", fontsize=9)
    bare(axes).set(xlim=(-0.05, 8.9), ylim=(-0.15, 2.9))
    return made


def _of_three_nodes():
    """Many nodes in two clusters, and three others: between them but exact, nearer to one but vague, far from both."""
    rng = np.random.default_rng(11)
    places = np.concatenate([rng.normal([-3.0, 0.0], 0.8, size=(14, 2)), rng.normal([3.0, 0.0], 0.8, size=(5, 2))])
    places = np.concatenate([places, [[0.25, -1.9], [1.6, 1.9], [0.9, 5.2]]])
    spreads = np.full(len(places), 0.35)
    spreads[14:19] = 0.9  # the few nodes on the right are vague too, so that their center is
    spreads[-3:] = 0.07, 1.5, 0.07
    return places[:, None] + spreads[:, None, None] * rng.normal(size=(len(places), 24, 2))


def sure():
    """Margin, membership and stability of the same three nodes."""
    points = _of_three_nodes()
    found = probi.stability(points, 2, n_worlds=200, random_state=0)
    left = int(found.centers[:, 0].argmin())
    distances = np.sort(probi.expected_distances(points, found.centers), axis=1)
    numbers = (
        1.0 - distances[:, 0] / distances[:, 1],
        probi.memberships(points, found.centers)[np.arange(len(points)), found.labels],
        found.confidence,
    )
    made, panels = figure(9.2, 4.0, columns=3, sharex=True, sharey=True)
    worlds = _worlds_of(points, found.centers, 24)
    titles = (
        "Margin: how close is\nthe next center?",
        "Membership: how much of the\nnode is beyond the border?",
        "Stability: and if the\nborder moves too?",
    )
    for kind, (axes, title, values) in enumerate(zip(panels, titles, numbers, strict=True)):
        for centers in worlds if kind == 2 else [found.centers]:
            _border(axes, centers, 0.35 if kind == 2 else 1.0)
            axes.scatter(*centers.T, marker="X", s=30 if kind == 2 else 90, color=RED, linewidths=0, zorder=3)
        nearest = probi.assign(points.reshape(-1, 2), found.centers).reshape(points.shape[:2])
        for i, node in enumerate(points):
            own = np.full(len(node), found.labels[i]) if kind == 0 else nearest[i]
            colours = np.where(own == left, BLUE, ORANGE)
            step, alpha = (1, 0.9) if i >= len(points) - 3 else (3, 0.35)
            axes.scatter(*node[::step].T, s=5, c=colours[::step], alpha=alpha, linewidths=0)
        for name, i in zip("ABC", range(-3, 0), strict=True):
            middle = points[i].mean(axis=0)
            if kind == 0:
                for center in found.centers:
                    axes.plot(*zip(middle, center, strict=True), color=GREY, linewidth=0.8, linestyle=":")
            axes.annotate(
                f"{name}  {values[i]:.2f}", middle, (9, 9), textcoords="offset points", fontweight="bold", zorder=4
            )
        axes.set_title(title)
        axes.set(xlim=(-5.6, 5.6), ylim=(-4.2, 6.8))
        bare(axes).set_aspect("equal")
    return made


def _worlds_of(points, centers, n):
    """Centers of some possible worlds."""
    rng = np.random.default_rng(3)
    drawn = (points[np.arange(len(points)), rng.integers(points.shape[1], size=len(points))] for _ in range(n))
    return [probi.solve(world, len(centers), init=centers).centers for world in drawn]


def _border(axes, centers, alpha):
    """The line between two centers."""
    middle, (dx, dy) = centers.mean(axis=0), centers[1] - centers[0]
    axes.axline(middle, (middle[0] - dy, middle[1] + dx), color=GREY, linewidth=1.0, alpha=alpha)


def card():
    """What social networks show of a link: 1200 x 630 pixels, read at a third of that."""
    made = Figure(figsize=(12, 6.3), dpi=100, facecolor="white")
    text = made.text
    text(0.05, 0.74, "probi", fontsize=64, fontweight="bold", color="#22272e")
    text(0.05, 0.44, "Clusters of\nuncertain data", fontsize=34, color="#22272e", linespacing=1.3)
    text(
        0.05,
        0.2,
        "k-median of distributions,\nstreaming, with error bars",
        fontsize=21,
        color="#57606a",
        linespacing=1.4,
    )
    picture = made.add_axes((0.44, 0.03, 0.54, 0.94))
    picture.imshow(mpl.image.imread(IMAGES / "otis.png"), interpolation="lanczos")
    picture.set_axis_off()
    return made


PICTURES = (road, problem, certificate, sandwich, lifted, cells, walk, levels, audit, sure)


def save(draw, folder):
    """Draw a picture and write it as SVG; the style is not left behind for other figures of the process."""
    with mpl.rc_context(STYLE):
        draw().savefig(folder / f"{draw.__name__}.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    if sys.argv[1:] in ([], ["card"]):
        card().savefig(IMAGES / "card.png", metadata={"Software": None})
    for picture in PICTURES:
        if not sys.argv[1:] or picture.__name__ in sys.argv[1:]:
            save(picture, IMAGES)
