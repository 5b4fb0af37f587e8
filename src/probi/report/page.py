"""The report: one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from probi._files import Location, as_path, write_atomically
from probi._notes import counted, versions
from probi._types import Array
from probi.errors import InputError
from probi.nodes import Nodes
from probi.report._explore import Table, embedded, explorer_data
from probi.report._map import LabelMap, map_picture
from probi.report._picture import Picture, color, has_colors
from probi.report._scene import (
    Original,
    Scene,
    clean,
    decimals_for,
    enumerated,
    fixed,
    make_scene,
    number,
    percent,
    plus_minus,
    short,
    with_unit,
)
from probi.report.plots import clusters_picture, elbow_picture, profiles_picture, split_picture
from probi.solver.result import Result, outlier_share

SCRIPTS = ("sort.js", "view.js", "draw.js", "panel.js", "explore.js")

MAX_PROFILED = 12  # features whose names fit below a panel
MAX_UNSCROLLED = 25  # tables with more rows scroll in their own box

N_TRAITS = 3  # features named for each cluster
MIN_TRAIT = 0.2  # fewer standard deviations from the median are not distinctive
MAX_FEATURES = 200  # in the table of centers
MAX_CELLS = 10_000  # in the same table: only the largest clusters are shown if there are more
MAX_ID = 24  # characters of an id in the table of clusters
REPRESENTATIVE = "Representative"
FEW_FEATURES = 6  # up to this number, clusters are the rows
TINTS = (0.5, 1.0, 2.0, 3.0)  # standard deviations from the median at which the shade of a cell deepens


@dataclass(frozen=True)
class Borderline:
    """A node that is almost as close to another center.

    Attributes
    ----------
    node : str
        Its id.
    cluster, other : int
        Its cluster, and the alternative.
    distance, other_distance : float
        Expected distances to the two centers.

    Examples
    --------
    >>> from probi.report import Borderline
    >>> Borderline(node="buoy 7", cluster=0, distance=3.1, other=2, other_distance=3.2).other
    2
    """

    node: str
    cluster: int
    distance: float
    other: int
    other_distance: float


@dataclass(frozen=True, eq=False)
class ReportContext:
    """What a report contains besides the solutions.

    Attributes
    ----------
    title : str
        Title of the report.
    read : mapping of str to str
        The input: files, rows, nodes, rows left out; label to text.
    settings : mapping of str to str
        Seed, size of the summary, scaling; label to text.
    reproduce : str
        Command line that reproduces the result.
    borderline : sequence of Borderline
        Nodes between two clusters, the closest calls first.
    n_borderline : int or None
        Their total number; None: unknown.
    counts : ndarray of shape (n_clusters,), list of ndarray, or None
        Number of nodes in each cluster of the chosen solution, or a list of these for all solutions; if all were
        counted.
    unit : str
        Of distances, such as "km".
    map : LabelMap or None
        Clusters of the cells of a grid of latitudes and longitudes, if nodes are these.

    Examples
    --------
    >>> from probi.report import ReportContext
    >>> context = ReportContext(
    ...     title="Buoys", read={"nodes": "120"}, settings={"seed": "0"}, reproduce="probi cluster buoys.csv -k 3"
    ... )
    >>> context.unit
    ''
    """

    title: str
    read: Mapping[str, str]
    settings: Mapping[str, str]
    reproduce: str
    borderline: Sequence[Borderline] = ()
    n_borderline: int | None = None
    counts: Array | list[Array] | None = None
    unit: str = ""
    map: LabelMap | None = None


def write_report(
    path: Location,
    results: Result | Sequence[Result],
    nodes: Nodes | ArrayLike,
    context: ReportContext | None = None,
    *,
    chosen: int = 0,
    features: Sequence[str] | None = None,
    original: Original | None = None,
) -> None:
    """Write a report as one self-contained HTML file, in light or dark mode.

    If scripts are allowed, a reader can explore it: point at nodes, click clusters, zoom, search ids, switch between
    solutions and sort tables. Plots and tables need no scripts. At most 5,000 nodes are drawn, always the same ones.

    The same input gives the same bytes, with the same versions of probi, NumPy and jinja2.

    Parameters
    ----------
    path : str or path-like
        File to write, or its URL; replaced atomically.
    results : Result or sequence of Result
        One result, or several with different numbers of clusters to compare.
    nodes : Nodes or array-like
        All nodes or a sample, for the plots and for the overall median and scale of each feature; arrays as in
        :func:`probi.solve`.
    context : ReportContext, default=None
        Further contents. None: the numbers of nodes and features.
    chosen : int, default=0
        Index of the result shown in detail.
    features, original
        As in :func:`~probi.report.plot_clusters`.

    Examples
    --------
    >>> import tempfile, pathlib, probi
    >>> nodes = probi.Nodes.from_points([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "report.html")
    ...     probi.report.write_report(path, probi.solve(nodes, 2, random_state=0), nodes)
    ...     path.read_text(encoding="utf-8").splitlines()[0]
    '<!DOCTYPE html>'
    """
    page = render_report(results, nodes, context, chosen=chosen, features=features, original=original)
    write_atomically(as_path(path), page.encode())


def render_report(
    results: Result | Sequence[Result], nodes: Any, context: ReportContext | None, *, chosen: int = 0,
    features: Sequence[str] | None = None, original: Original | None = None,
) -> str:  # fmt: skip
    """The report as text; see :func:`write_report`."""
    results = results if isinstance(results, Sequence) else [results]
    if not 0 <= chosen < len(results):
        raise InputError(f"chosen must be between 0 and {len(results) - 1}, got {chosen}.")
    result = results[chosen]
    scene = make_scene(result, nodes, features, original)
    k = scene.n_clusters
    context = context or ReportContext(
        title=counted(k, "cluster"),
        read={"Nodes": f"{scene.n_nodes:,}", "Features": f"{len(scene.features):,}"},
        settings={},
        reproduce=f"probi.solve(nodes, n_clusters={k}, random_state=SEED)  # with the seed of this run, if any",
    )
    cost = with_unit(plus_minus(result.cost, result.standard_error), context.unit)
    mass, share = float(result.clusters.mass.sum()), _spread_share(result)
    tables = [
        _cluster_table(solution, counts, scene, context.unit)
        for solution, counts in _with_counts(results, chosen, context.counts)
    ]
    script = "\n".join(_resource(name) for name in SCRIPTS)
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(_resource("page.html.j2")).render(
        context=context,
        title=clean(context.title),
        k=k,
        cost=cost,
        mean_distance=with_unit(number(result.cost / mass if mass > 0 else math.nan, 3), context.unit),
        spread_share=percent(share),
        sentences=_sentences(results, result, cost, share),
        spread_percent=f"{100 * share:.2f}%" if math.isfinite(share) else "0%",  # width of the bar at the top
        pictures=_pictures(results, chosen, scene, context),
        color=lambda cluster: color(int(cluster), k),
        columns=tables[chosen].columns,
        traits=tables[chosen].traits,
        n_results=len(results),
        explored=0 if context.map is None else 1,  # which of the pictures a reader can explore; the map comes before
        data=Markup(embedded(explorer_data(results, chosen, scene, tables))),
        style=Markup(_resource("page.css")),
        has_colors=has_colors(k),
        has_counts=context.counts is not None or result.labels is not None,
        representative=REPRESENTATIVE,
        is_estimate=_is_estimate(result),
        coreset_cost=with_unit(number(result.coreset_cost), context.unit),
        grid=centers_grid(scene),
        long=MAX_UNSCROLLED,
        borderline=borderline_rows(context.borderline),
        versions=versions(),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _resource(name: str) -> str:
    return resources.files("probi.report").joinpath(name).read_text(encoding="utf-8")


# -- sentences --------------------------------------------------------------------------------------------------------


def _sentences(results: Sequence[Result], result: Result, cost: str, share: float) -> list[str]:
    """Sentences at the top of the report: the cost, what part of it is spread, and what was solved."""
    kind = " (estimated, ± one standard error)" if result.standard_error > 0 else " (exact)"
    sentences = [f"{counted(len(result.centers), 'center')} with an expected cost of {cost}{kind}."]
    if share > 0:
        sentences.append(f"{percent(share)} of it is the nodes' own spread, which no clustering can reduce.")
    elif share == 0:
        sentences.append("The nodes have no spread: all of the cost is distance between nodes and centers.")
    sentences += [_bound_sentence(result), _outlier_sentence(result)]
    if len(results) > 1:
        ks = [len(other.centers) for other in results]
        is_range = len(ks) > 2 and ks == [*range(ks[0], ks[-1] + 1)]
        listed = f"{ks[0]} to {ks[-1]}" if is_range else enumerated([str(k) for k in ks], 30)
        sentences.append(f"Details are shown for {len(result.centers)} clusters; solutions exist for k = {listed}.")
    empty = len(result.centers) - result.n_distinct
    if empty > 0:
        sentences.append(f"{counted(empty, 'cluster')} of these {'has' if empty == 1 else 'have'} no nodes.")
    return [sentence for sentence in sentences if sentence]


def _bound_sentence(result: Result) -> str:
    """How far the cost is above the optimum at most; empty if unknown."""
    above = result.above_optimum
    if above is None:
        return ""
    how_far = f"at most {percent(max(above, 1e-3))} above" if above < 2 else f"at most {number(1 + above, 2)} times"
    margin = "" if result.standard_error == 0 else ", two standard errors"
    return f"That is {how_far} the optimum (certified lower bound{margin}); the true gap is usually much smaller."


def _outlier_sentence(result: Result) -> str:
    """The share of outliers; empty if none were to be left out."""
    if result.outlier_distance == math.inf:
        return ""
    share = percent(outlier_share(result))
    return f"{share} of the mass was left out as outliers; they belong to no cluster and are not in the cost."


def _spread_share(result: Result) -> float:
    """Share of the cost that is the nodes' own spread; NaN if the cost is not known."""
    if not result.cost > 0:
        return 0.0 if result.cost == 0 else math.nan
    return min(result.spread_cost / result.cost, 1.0)


# -- plots ------------------------------------------------------------------------------------------------------------


def _pictures(results: Sequence[Result], chosen: int, scene: Scene, context: ReportContext) -> list[Picture]:
    pictures = [] if context.map is None else [map_picture(context.map, scene.n_clusters)]
    pictures.append(clusters_picture(scene))
    if len(results) > 1:
        pictures.append(elbow_picture(results, chosen, context.unit))
    pictures.append(split_picture(results[chosen], context.unit))
    # The first plot shows two features directly; for many clusters the colored table of centers is enough.
    if 2 < len(scene.features) <= MAX_PROFILED and has_colors(scene.n_clusters):
        pictures.append(profiles_picture(scene))
    return pictures


# -- tables -----------------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """A formatted number, and the value by which the table is sorted.

    In the table of centers, ``tint`` says how unusual it is: "h1" to "h4" if high, "l1" to "l4" if low.
    """

    text: str
    value: float
    tint: str = ""


class Column(NamedTuple):
    """A column of the table of clusters."""

    name: str
    detail: str  # below the name: the unit, and whether it is an estimate
    cells: list[Cell]


class Grid(NamedTuple):
    """The table of centers: ``cells[i][j]`` belongs to ``rows[i]`` and ``columns[j]``."""

    corner: str
    columns: list[str]
    rows: list[str]
    cells: list[list[Cell]]
    features_left_out: int
    clusters_left_out: int


def _with_counts(results: Sequence[Result], chosen: int, counts: Any) -> Iterator[tuple[Result, Array | None]]:
    """Each result with the number of nodes in its clusters, if known."""
    for i, result in enumerate(results):
        given = counts[i] if isinstance(counts, list) else counts if i == chosen else None
        yield result, given if given is not None or result.labels is None else result.clusters.count


def _cluster_table(result: Result, counts: Array | None, scene: Scene, unit: str) -> Table:
    """The table of clusters of a solution."""
    columns = cluster_columns(result, scene, counts, unit, _is_estimate(result))
    return Table(columns, traits(scene, np.asarray(result.centers)))


def _is_estimate(result: Result) -> bool:
    """Whether mass, cost and spread of the clusters are those of a coreset."""
    return result.labels is None and not math.isclose(result.coreset_cost, result.cost, rel_tol=1e-9)


def cluster_columns(result: Result, scene: Scene, counts: Array | None, unit: str, is_estimate: bool) -> list[Column]:
    """Columns of the table of clusters; ``counts`` are exact numbers of nodes, if known."""
    clusters = result.clusters
    if counts is not None and len(counts) != len(result.centers):
        raise InputError(f"counts must have one entry per center, {len(result.centers)}, got {len(counts)}.")

    def column(name: str, values: Array, unit: str) -> Column:
        # Three significant digits are enough for an estimate.
        texts = _aligned(np.array([float(f"{value:.3g}") for value in values]) if is_estimate else values)
        detail = ", ".join(part for part in (unit, "about" if is_estimate else "") if part)
        return Column(name, detail, list(map(Cell, texts, map(float, values))))

    sizes, amounts = [], clusters.mass
    # The mass has its own column unless it is the number of nodes.
    mass_is_count = np.allclose(scene.nodes.mass, 1.0, rtol=1e-6)
    if counts is not None:
        mass_is_count = mass_is_count and np.isclose(counts.sum(), clusters.mass.sum(), rtol=1e-6)
        sizes.append(Column("Nodes", "", [Cell(number(float(n), 15), float(n)) for n in counts]))
        amounts = counts if mass_is_count else amounts
    if counts is None or not mass_is_count:
        sizes.append(column("Nodes" if mass_is_count else "Mass", clusters.mass, ""))
    shares = _ratios(amounts, np.nansum(amounts))
    return [
        *sizes,
        Column("Share", "", [Cell(percent(share), float(share)) for share in shares]),
        column("Cost", clusters.cost, unit),
        column("Spread", clusters.spread, unit),
        column("Mean distance", _ratios(clusters.cost, clusters.mass), unit),
        *_representative_columns(result),
    ]


def _representative_columns(result: Result) -> list[Column]:
    """The column with the ids of representatives, if nodes have ids; a result made by hand has no representatives."""
    representatives = getattr(result, "representatives", None)
    if representatives is None or representatives.ids is None:
        return []
    names = [short(clean(name), MAX_ID) for name in representatives.names]
    return [Column(REPRESENTATIVE, "id of a node", list(map(Cell, names, map(float, representatives.index))))]


def traits(scene: Scene, coordinates: Array) -> list[list[tuple[str, str, float]]]:
    """Per center, features in which it is farthest from the median of all nodes: name, value, standard deviations."""
    centers = scene.to_original(coordinates)
    positions = np.nan_to_num(scene.standardized(centers))
    features = np.argsort(-np.abs(positions), axis=1, kind="stable")[:, :N_TRAITS].tolist()
    decimals = {j: scene.decimals(j) for j in set().union(*features)}
    return [
        [
            (scene.features[j], fixed(float(centers[c, j]), decimals[j]), float(positions[c, j]))
            for j in features[c]
            if abs(positions[c, j]) >= MIN_TRAIT
        ]
        for c in range(len(centers))
    ]


def centers_grid(scene: Scene) -> Grid:
    """Centers in original units; clusters are the rows, unless there are many features."""
    shown = scene.most_different(MAX_FEATURES).tolist()
    clusters = scene.largest(max(MAX_CELLS // len(shown), 1))
    names, numbers = [scene.features[j] for j in shown], [str(c) for c in clusters]
    positions = np.nan_to_num(scene.standardized(scene.centers))
    by_feature = []
    for j in shown:
        decimals = scene.decimals(j)
        column = zip(scene.centers[clusters, j].tolist(), positions[clusters, j].tolist(), strict=True)
        by_feature.append([Cell(fixed(value, decimals), value, _tint(position)) for value, position in column])
    left_out = len(scene.features) - len(shown), scene.n_clusters - len(clusters)
    if len(scene.features) <= FEW_FEATURES:
        return Grid("Cluster", names, numbers, [list(row) for row in zip(*by_feature, strict=True)], *left_out)
    return Grid("Feature", numbers, names, by_feature, *left_out)


def _tint(position: float) -> str:
    """The class of a cell that is so many standard deviations from the median; see Cell."""
    level = sum(abs(position) >= tint for tint in TINTS)
    return f"{'h' if position > 0 else 'l'}{level}" if level else ""


def borderline_rows(borderline: Sequence[Borderline]) -> list[tuple[str, int, str, int, str, str]]:
    """Rows of the table of nodes between two clusters."""
    distances = np.array([(node.distance, node.other_distance) for node in borderline], np.float64).reshape(-1, 2)
    texts = np.reshape(_aligned(distances.ravel()), (-1, 2)).tolist()
    farther = _ratios(distances[:, 1] - distances[:, 0], distances[:, 0])
    return [
        (clean(node.node), node.cluster, nearer, node.other, other, percent(ratio))
        for node, (nearer, other), ratio in zip(borderline, texts, farther, strict=True)
    ]


def _aligned(values: Array) -> list[str]:
    """Numbers of one column with the same number of decimals: three significant digits for their median."""
    finite = np.abs(values[np.isfinite(values) & (values != 0)])
    decimals = decimals_for(values, float(np.median(finite)) if len(finite) else 1.0)
    return [fixed(float(value), decimals) for value in values]


def _ratios(parts: Array, totals: Any) -> Array:
    """Parts divided by totals; NaN where a total is 0 or not finite."""
    return parts / np.where(np.isfinite(totals) & (totals != 0), totals, np.nan)
