"""The report: one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import jinja2
from markupsafe import Markup
from numpy.typing import ArrayLike

from probi._notes import counted
from probi._system import versions, write_atomically
from probi._types import Array
from probi.errors import InputError
from probi.nodes import Nodes
from probi.report._charts import elbow_picture, profiles_picture, split_picture
from probi.report._clusters import clusters_picture
from probi.report._picture import Picture
from probi.report._scene import Original, Scene, make_scene
from probi.report._style import clean, color, enumerated, has_colors, measured, number, percent, plus_minus
from probi.report._tables import borderline_rows, centers_grid, cluster_columns, traits
from probi.solver.result import Result

MAX_PROFILED = 12  # features whose names fit below a panel
LONG = 25  # tables with more rows scroll in their own box


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
    counts : ndarray of shape (n_clusters,) or None
        Number of nodes in each cluster of the chosen solution, if all were counted.
    unit : str
        Of distances, such as "km".

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
    counts: Array | None = field(default=None)
    unit: str = ""


def write_report(
    path: str | os.PathLike[str],
    results: Result | Sequence[Result],
    nodes: Nodes | ArrayLike,
    context: ReportContext | None = None,
    *,
    chosen: int = 0,
    features: Sequence[str] | None = None,
    original: Original | None = None,
) -> None:
    """Write a report as one self-contained HTML file, in light or dark mode.

    Its tables can be sorted if scripts are allowed; everything else works without.

    The same input gives the same bytes, with the same versions of probi, NumPy and jinja2.

    Parameters
    ----------
    path : str or path-like
        File to write; replaced atomically.
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
    write_atomically(Path(path), page.encode())


def render_report(
    results: Result | Sequence[Result],
    nodes: Nodes | ArrayLike,
    context: ReportContext | None,
    *,
    chosen: int = 0,
    features: Sequence[str] | None = None,
    original: Original | None = None,
) -> str:
    """The report as text; see :func:`write_report`."""
    results = results if isinstance(results, Sequence) else [results]
    if not 0 <= chosen < len(results):
        raise InputError(f"chosen must be between 0 and {len(results) - 1}, got {chosen}.")
    result = results[chosen]
    scene = make_scene(result, nodes, features, original)
    context = context or _default_context(result, scene)
    counts = context.counts if context.counts is not None or result.labels is None else result.clusters.count
    is_estimate = result.labels is None and not math.isclose(result.coreset_cost, result.cost, rel_tol=1e-9)
    k = len(result.centers)
    script = _resource("page.js")
    return _template().render(
        context=context,
        title=clean(context.title),
        facts=_facts(result, context.unit),
        sentences=_sentences(results, chosen, context.unit),
        spread_percent=_spread_percent(result),
        pictures=[(Markup(each.svg()), each.words) for each in _pictures(results, chosen, scene, context.unit)],
        colors=[color(c, k) for c in range(k)],
        columns=cluster_columns(result, scene, counts, context.unit, is_estimate),
        traits=[traits(scene, c) for c in range(k)],
        has_colors=has_colors(k),
        has_counts=counts is not None,
        is_estimate=is_estimate,
        coreset_cost=measured(number(result.coreset_cost), context.unit),
        grid=centers_grid(scene),
        long=LONG,
        borderline=borderline_rows(context.borderline, k),
        versions=versions(),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _default_context(result: Result, scene: Scene) -> ReportContext:
    """Context of a result without a run."""
    k = len(result.centers)
    return ReportContext(
        title=counted(k, "cluster"),
        read={"Nodes": f"{scene.n_nodes:,}", "Features": f"{len(scene.features):,}"},
        settings={},
        reproduce=f"probi.solve(nodes, n_clusters={k}, random_state=SEED)  # with the seed of this run, if any",
    )


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["breakable"] = _breakable
    return environment.from_string(_resource("page.html.j2"))


def _resource(name: str) -> str:
    return resources.files("probi.report").joinpath(name).read_text(encoding="utf-8")


def _breakable(name: str) -> Markup:
    """Allow a line break after each underscore of a name."""
    return Markup("_<wbr>").join(name.split("_"))


# -- sentences --------------------------------------------------------------------------------------------------------


def _facts(result: Result, unit: str) -> list[tuple[str, str]]:
    """Key figures: value and label."""
    mass = float(result.clusters.mass.sum())
    distance = number(result.cost / mass, 3) if mass > 0 else number(math.nan)
    return [
        (str(len(result.centers)), "cluster" if len(result.centers) == 1 else "clusters"),
        (measured(plus_minus(result.cost, result.standard_error), unit), "expected cost"),
        (measured(distance, unit), "mean distance to a center"),
        (percent(_spread_share(result)), "of the cost is the nodes' own spread"),
    ]


def _sentences(results: Sequence[Result], chosen: int, unit: str) -> list[str]:
    """Sentences that explain the cost."""
    result = results[chosen]
    cost = measured(plus_minus(result.cost, result.standard_error), unit)
    kind = " (estimated, ± one standard error)" if result.standard_error > 0 else " (exact)"
    found = [f"{counted(len(result.centers), 'center')} with an expected cost of {cost}{kind}."]
    share = _spread_share(result)
    if share > 0:
        found.append(f"{percent(share)} of it is the nodes' own spread, which no clustering can reduce.")
    elif share == 0:
        found.append("The nodes have no spread: all of the cost is distance between nodes and centers.")
    found.append(_bound(result))
    if len(results) > 1:
        ks = enumerated([str(len(other.centers)) for other in results], 30)
        found.append(f"Details are shown for {len(result.centers)} clusters; solutions exist for k = {ks}.")
    empty = len(result.centers) - result.n_distinct
    if empty > 0:
        found.append(f"{counted(empty, 'cluster')} of these {'has' if empty == 1 else 'have'} no nodes.")
    return [sentence for sentence in found if sentence]


def _bound(result: Result) -> str:
    """Bound on the gap between the solution and the optimum."""
    above = result.above_optimum
    if above is None:
        return ""
    how_far = f"at most {percent(max(above, 1e-3))} above" if above < 2 else f"at most {number(1 + above, 2)} times"
    exactly = "" if result.standard_error == 0 else ", two standard errors"
    return f"That is {how_far} the optimum (certified lower bound{exactly}); the true gap is usually much smaller."


def _spread_share(result: Result) -> float:
    if not result.cost > 0:
        return 0.0 if result.cost == 0 else math.nan
    return min(result.spread_cost / result.cost, 1.0)


def _spread_percent(result: Result) -> str:
    """Width of the bar at the top of the page; a CSS length."""
    share = _spread_share(result)
    return f"{100 * share:.2f}%" if math.isfinite(share) else "0%"


# -- plots ------------------------------------------------------------------------------------------------------------


def _pictures(results: Sequence[Result], chosen: int, scene: Scene, unit: str) -> list[Picture]:
    pictures = [clusters_picture(scene)]
    if len(results) > 1:
        pictures.append(elbow_picture(results, chosen, unit))
    pictures.append(split_picture(results[chosen], unit))
    # The first plot shows two features directly; for many clusters the colored table of centers is enough.
    if 2 < len(scene.features) <= MAX_PROFILED and has_colors(scene.n_clusters):
        pictures.append(profiles_picture(scene))
    return pictures
