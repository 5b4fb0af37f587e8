"""What plots and tables show: nodes and centers, in original units; their statistics; formats of numbers and names."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from probi._notes import counted
from probi._types import Array, Floats, Integers, Labels
from probi.errors import InputError
from probi.nodes import Nodes, as_nodes
from probi.objective import assign_inliers, check_centers
from probi.solver.result import Result

Original = Callable[[Array], Array]

# Coordinates used for statistics: one second of work, and fractions are accurate to a fraction of a percent.
MAX_COORDINATES = 4_000_000

MISSING = "–"  # for a missing number
THIN = "\u202f"  # narrow no-break space: 83 %
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# Powers of ten between which numbers are written without an exponent.
SMALLEST, LARGEST = -4, 12


@dataclass(frozen=True, eq=False)
class Scene:
    """Nodes and their clusters, with the positions of nodes and centers.

    Attributes
    ----------
    nodes : Nodes
        The nodes used: all, or a sample that depends only on the nodes.
    n_nodes : int
        Number of all nodes.
    labels : ndarray of shape (n_nodes,)
        Nearest center of each, -1 for outliers. Not those of the result, which may belong to other nodes.
    coordinates : ndarray of shape (n_clusters, d)
        Centers in the coordinates of the clustering.
    to_original : function
        Maps coordinates to original units.
    features : list of str
        Names in original units.
    cluster_masses : ndarray of shape (n_clusters,)
        Those of the result, for all its nodes.
    """

    nodes: Nodes
    n_nodes: int
    labels: Labels
    coordinates: Floats
    to_original: Original
    features: list[str]
    cluster_masses: Floats

    @property
    def n_clusters(self) -> int:
        """Number of centers."""
        return len(self.coordinates)

    @cached_property
    def centers(self) -> Floats:
        """In original units, (n_clusters, d')."""
        return self.to_original(self.coordinates)

    @cached_property
    def values(self) -> Floats:
        """Realizations in original units, (n_realizations, d')."""
        return self.to_original(self.nodes.points)

    @cached_property
    def masses(self) -> Floats:
        """Weight times probability of each realization; 0 for those of outliers."""
        weights = np.where(self.labels < 0, 0.0, self.nodes.weights)
        return np.asarray(self.by_realization(weights) * self.nodes.probabilities, np.float64)

    @cached_property
    def owners(self) -> Labels:
        """Cluster of each realization; -1 for those of outliers."""
        return np.asarray(self.by_realization(self.labels), np.int32)

    @cached_property
    def members(self) -> list[Integers]:
        """Indices of the realizations of each cluster."""
        order = np.argsort(self.owners, kind="stable")
        ends = np.cumsum(np.bincount(self.owners + 1, minlength=self.n_clusters + 1))
        return np.split(order, ends[:-1])[1:]  # the first are outliers

    @cached_property
    def medians(self) -> Floats:
        """Median of each feature over all realizations, (d',)."""
        return quantiles(self.values, self.masses, (0.5,)).ravel()

    @cached_property
    def scales(self) -> Floats:
        """Standard deviation of each feature over all realizations, (d',); 0 if a feature does not vary."""
        return deviations(self.values, self.masses)

    @cached_property
    def inner_scales(self) -> Floats:
        """Standard deviation of each feature within a cluster, the median over clusters, (d',); 0 if there is none."""
        within = np.array([deviations(self.values[inside], self.masses[inside]) for inside in self.members])
        return np.array([np.median(column[column > 0]) if (column > 0).any() else 0.0 for column in within.T])

    @property
    def shares(self) -> Floats:
        """Fraction of the mass in each cluster; NaN if there is none."""
        total = self.cluster_masses.sum()
        return self.cluster_masses / (total if total > 0 else np.nan)

    def quartiles(self, cluster: int) -> Floats:
        """First and third quartile of each feature over the realizations of a cluster, (2, d')."""
        inside = self.members[cluster]
        return quantiles(self.values[inside], self.masses[inside], (0.25, 0.75))

    def by_realization(self, by_node: Array) -> Array:
        """Values of nodes, repeated for each of their realizations."""
        return np.repeat(by_node, np.diff(self.nodes.offsets))

    def standardized(self, values: Array) -> Floats:
        """Values in standard deviations from the overall median; 0 if a feature does not vary."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.scales > 0, (values - self.medians) / self.scales, 0.0)

    def most_different(self, at_most: int) -> Integers:
        """Indices of the features in which the centers differ most from the nodes and each other, in order."""
        positions = np.nan_to_num(np.vstack([self.standardized(self.centers), np.zeros(len(self.features))]))
        order = np.argsort(-np.ptp(positions, axis=0), kind="stable")
        return np.sort(order[:at_most])

    def largest(self, at_most: int) -> Integers:
        """The clusters with the largest mass, in order of their numbers."""
        return np.sort(np.argsort(-self.cluster_masses, kind="stable")[:at_most])

    def decimals(self, feature: int) -> int | None:
        """Three digits of the width of a cluster, four standard deviations: more would be meaningless."""
        width = 4 * float(self.inner_scales[feature])
        return decimals_for(self.centers[:, feature], width if width > 0 else float(self.scales[feature]))

    @property
    def sample_note(self) -> str:
        """How many of the nodes are drawn, if not all are."""
        if len(self.nodes) == self.n_nodes:
            return ""
        return f" Drawn from {len(self.nodes):,} of {counted(self.n_nodes, 'node')}, chosen at random."


def make_scene(result: Result, nodes: Any, features: Sequence[str] | None, original: Original | None) -> Scene:
    """Scene of nodes, or an array of them, and the centers of a result; raises if they do not match."""
    check_result(result)
    nodes = as_nodes(nodes)
    if len(nodes) == 0:
        raise InputError("No nodes to draw. Pass at least one.")
    centers = check_centers(result.centers, nodes.n_features)
    some = sample_nodes(nodes, MAX_COORDINATES // nodes.n_features)
    convert = partial(_in_original_units, original)
    n_original = convert(centers).shape[1]
    if features is not None and len(features) != n_original:
        raise InputError(f"features must have {n_original} names, one per feature, got {len(features)}.")
    names = [f"x{j}" for j in range(n_original)] if features is None else list(map(clean, features))
    masses = np.nan_to_num(np.asarray(result.clusters.mass, np.float64))
    labels = assign_inliers(some, centers, result.outlier_distance)
    return Scene(some, len(nodes), labels, centers, convert, names, masses)


def check_result(result: Any) -> None:
    """Raise with the right call if it is not a result."""
    if hasattr(result, "result_"):
        raise InputError(f"Pass the result of the {type(result).__name__}: its attribute result_.")
    if not isinstance(result, Result):
        raise InputError(
            f"The result must come before the nodes, as in plot_clusters(result, nodes), got a {type(result).__name__}."
        )


def sample_nodes(nodes: Nodes, max_realizations: int) -> Nodes:
    """All nodes, or a fixed sample with at most ``max_realizations`` realizations, but at least one node."""
    if nodes.n_realizations <= max_realizations:
        return nodes
    order = np.random.default_rng(0).permutation(len(nodes))
    sizes = np.cumsum(np.diff(nodes.offsets)[order])
    n_kept = max(1, int(np.searchsorted(sizes, max_realizations, side="right")))
    return nodes.take(np.sort(order[:n_kept]))


def _in_original_units(original: Original | None, points: Array) -> Floats:
    values = np.asarray(points if original is None else original(np.asarray(points)), np.float64)
    if values.ndim != 2 or len(values) != len(points):
        raise InputError(
            f"original returned an array of shape {values.shape} for {len(points)} points. "
            "It must return one row per point, (n, d')."
        )
    return values


# -- weighted statistics of realizations; values that are not finite are ignored --------------------------------------


def quantiles(values: Array, masses: Floats, shares: tuple[float, ...]) -> Floats:
    """Weighted quantiles of each column: the smallest value with at least this fraction of the mass at or below it.

    Parameters
    ----------
    values : ndarray of shape (n, d)
    masses : ndarray of shape (n,)
    shares : tuple of n_shares floats

    Returns
    -------
    ndarray of shape (n_shares, d)
        NaN for a column without mass.
    """
    out = np.full((len(shares), values.shape[1]), np.nan)
    for j, column in enumerate(values.T):
        usable = np.isfinite(column) & (masses > 0)
        if usable.any():
            order = np.argsort(column[usable], kind="stable")
            sums = np.cumsum(masses[usable][order])
            at = np.searchsorted(sums, np.array(shares) * sums[-1] * (1 - 1e-12))
            out[:, j] = column[usable][order][at]
    return out


def means(values: Array, masses: Floats) -> Floats:
    """Mean of each column, (d,); NaN for a column without mass."""
    total = masses.sum()
    if total > 0 and np.isfinite(values).all():
        return np.asarray(masses @ values / total)
    usable = np.where(np.isfinite(values), masses[:, None], 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((usable * np.nan_to_num(values)).sum(axis=0) / usable.sum(axis=0))


def deviations(values: Array, masses: Floats) -> Floats:
    """Standard deviation of each column, (d,); 0 if it is only rounding."""
    middle = means(values, masses)
    roots = np.sqrt(means((values - middle) ** 2, masses))
    rounding = 1e-12 * np.abs(np.nan_to_num(middle))
    return np.where(roots > rounding, roots, 0.0)


def covariance(values: Array, masses: Floats) -> tuple[Floats, Floats] | None:
    """Mean (d,) and covariance (d, d) of the rows that are finite; None if they have no mass."""
    usable = np.isfinite(values).all(axis=1) & (masses > 0)
    if not usable.any():
        return None
    shares = masses[usable] / masses[usable].sum()
    middle = shares @ values[usable]
    offsets = values[usable] - middle
    return middle, (offsets * shares[:, None]).T @ offsets


def principal_plane(values: Array, masses: Floats) -> tuple[Floats, Floats, Floats]:
    """Plane with the most variance.

    Parameters
    ----------
    values : ndarray of shape (n, d)
    masses : ndarray of shape (n,)

    Returns
    -------
    middle : ndarray of shape (d,)
    axes : ndarray of shape (2, d)
        Of length 1, the largest coordinate positive; 0 where there is no such direction.
    shares : ndarray of shape (2,)
        Part of the variance along each axis.
    """
    total = masses.sum()
    weights = masses / total if total > 0 else np.full(len(masses), 1 / len(masses))
    middle = weights @ values
    variance, directions = _principal(np.sqrt(weights)[:, None] * (values - middle))
    axes, shares = np.zeros((2, values.shape[1])), np.zeros(2)
    n_axes = min(2, len(variance))
    largest = np.abs(directions[:n_axes]).argmax(axis=1)
    axes[:n_axes] = directions[:n_axes] * np.sign(directions[np.arange(n_axes), largest])[:, None]
    if variance.sum() > 0:
        shares[:n_axes] = variance[:n_axes] / variance.sum()
    return middle, axes, shares


def _principal(values: Array) -> tuple[Floats, Floats]:
    """Variances and directions, the largest first."""
    if len(values) < values.shape[1]:
        _, singular, directions = np.linalg.svd(values, full_matrices=False)
        return singular**2, directions
    # Eigenvectors of the smaller Gram matrix: a hundred times faster, and half the digits suffice for a plot.
    variance, directions = np.linalg.eigh(values.T @ values)
    return np.maximum(variance[::-1], 0.0), directions.T[::-1]


# -- formats ----------------------------------------------------------------------------------------------------------


def number(value: float, digits: int = 4) -> str:
    """Format a number with the given significant digits; the integer part is never rounded away.

    Examples
    --------
    >>> [number(x) for x in (1234567, 12.3456, -0.5, 0.0)]
    ['1,234,567', '12.35', '−0.5', '0']
    >>> number(float("nan")), number(3.2e-7)
    ('–', '3.2 × 10⁻⁷')
    """
    if not math.isfinite(value):
        return MISSING if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0:
        return "0"
    power = _power(value)
    if not SMALLEST <= power < LARGEST:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return _signed(f"{_trimmed(mantissa)} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}")
    return _signed(_trimmed(f"{value:,.{max(0, digits - 1 - power)}f}"))


def fixed(value: float, decimals: int | None) -> str:
    """Format a number with the given decimals, so that a column aligns; None: with three significant digits."""
    if decimals is None or not math.isfinite(value):
        return number(value, 3)
    return _signed(f"{value:,.{decimals}f}") if round(value, decimals) else f"{0:.{decimals}f}"


def decimals_for(values: Array, scale: float) -> int | None:
    """Decimals that show three digits of a column's scale; None if its numbers are too large or too small for that."""
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max(initial=0.0))
    if largest == 0 or not (math.isfinite(scale) and scale > 0):
        scale = largest or 1.0
    if _power(scale) < SMALLEST or (largest and _power(largest) >= LARGEST):
        return None
    return 0 if np.all(np.abs(finite - np.round(finite)) <= 1e-9 * finite) else max(2 - _power(scale), 0)


def percent(share: float) -> str:
    """Format a fraction in percent; neither a small one becomes 0 nor a large one 100.

    Examples
    --------
    >>> [percent(x) for x in (0.834, 0.0512, 0.0, 1e-9, 0.9999, 1.0)]
    ['83\u202f%', '5.1\u202f%', '0\u202f%', 'below 0.1\u202f%', '99.9\u202f%', '100\u202f%']
    """
    if not math.isfinite(share):
        return MISSING
    hundred = 100 * share
    if 0 < hundred < 0.1:
        return f"below 0.1{THIN}%"
    if 99.5 < hundred < 100:
        return f"{min(hundred, 99.94):.1f}{THIN}%".replace("100.0", "99.9")
    decimals = 1 if 0 < abs(hundred) < 9.95 else 0
    return _signed(f"{hundred:,.{decimals}f}{THIN}%")


def plus_minus(value: float, error: float) -> str:
    """Format a value and its standard error, both to the error's second digit; without an error, six digits.

    Examples
    --------
    >>> plus_minus(1234.4321, 12.345), plus_minus(1234.4321, 0.0), plus_minus(1234567.0, 1234.0)
    ('1,234 ± 12', '1,234.43', '1,234,600 ± 1,200')
    """
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return number(value, 6)
    decimals = 1 - _power(error)
    if decimals > 6 or max(_power(error), _power(value or 1.0)) >= LARGEST:
        return f"{number(value, 6)} ± {number(error, 2)}"
    both = (f"{round(x, decimals):,.{max(decimals, 0)}f}" for x in (value, error))
    return _signed(" ± ".join(both))


def with_unit(value: str, unit: str) -> str:
    """Add the unit to a number, if there is one.

    Examples
    --------
    >>> with_unit("12.3", "km"), with_unit("12.3", "")
    ('12.3 km', '12.3')
    """
    return f"{value} {unit}" if unit else value


def clean(text: object) -> str:
    """Text on one line without control characters, which XML forbids."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())


def short(text: str, length: int) -> str:
    """Shorten text to the given length in the middle, because long names differ at their ends.

    Examples
    --------
    >>> short("Horizontal_Distance_To_Roadways", 20)
    'Horizontal…_Roadways'
    """
    tail = (length - 1) // 2
    return text if len(text) <= length else f"{text[: length - 1 - tail]}…{text[-tail:]}"


def enumerated(names: Sequence[str], at_most: int) -> str:
    """``a, b and 3 more``."""
    shown = ", ".join(names[:at_most])
    return shown if len(names) <= at_most else f"{shown} and {len(names) - at_most} more"


def _power(value: float) -> int:
    return math.floor(math.log10(abs(value)))


def _trimmed(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _signed(digits: str) -> str:
    return digits.replace("-", "−")
