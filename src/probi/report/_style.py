"""How numbers, names and clusters are shown: formats and colors."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from probi._types import Array
from probi.errors import InputError

MISSING = "–"  # for a missing number
THIN = "\u202f"  # narrow no-break space: 83 %
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# Powers of ten between which numbers are written without an exponent.
SMALLEST, LARGEST = -4, 12


INK, MUTED, LINE = "#1f2733", "#667080", "#d9dde3"
SPREAD, EXCESS = "#9fb3c8", "#33618f"
DISC, DISC_INK = "#ffffff", "#1f2732"  # discs stay white on a dark page, so their numbers stay dark

# Paul Tol's "bright" scheme, extended: each next color is the one farthest from all before it, for normal and for
# color-deficient vision; visible on white and on black.
PALETTE = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#9687ff", "#692db4", "#2da596", "#873c1e",
    "#96960f", "#b45ad2", "#ffa5c3", "#e178d2", "#78c396", "#00694b", "#4b78ff", "#c35a0f", "#874bd2", "#966978",
)  # fmt: skip
# Color-blind readers can tell seven colors apart, but not twenty, so each group of seven has its own marker.
SAME_MARKER = 7
MARKERS = ("o", "s", "^")


def has_colors(n_clusters: int) -> bool:
    """Whether each cluster has its own color; if there are too many, none has."""
    return n_clusters <= len(PALETTE)


def color(cluster: int, n_clusters: int) -> str:
    """Color of a cluster."""
    return PALETTE[cluster] if has_colors(n_clusters) else MUTED


def marker(cluster: int, n_clusters: int) -> str:
    """Marker of a cluster."""
    return MARKERS[cluster // SAME_MARKER] if has_colors(n_clusters) else MARKERS[0]


class Words(NamedTuple):
    """Title, caption and alternative text of a plot."""

    title: str
    caption: str
    alt: str


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


def measured(value: str, unit: str) -> str:
    """Add the unit to a number, if there is one.

    Examples
    --------
    >>> measured("12.3", "km"), measured("12.3", "")
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


def feature_names(features: Sequence[str] | None, n_features: int) -> list[str]:
    """Names to show: those given, or x0, x1, ..."""
    if features is None:
        return [f"x{j}" for j in range(n_features)]
    if len(features) != n_features:
        raise InputError(f"features must have {n_features} names, one per feature, got {len(features)}.")
    return [clean(name) for name in features]


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
