"""Checks of what users pass, once, where it enters: each raises an InputError that says where and what to do."""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from probi import _notes, _parallel
from probi._types import Array, Mask
from probi.errors import InputError, InputWarning

# Squares of larger coordinates, summed over features, leave float64; squares of smaller ones vanish in it, and so do
# costs of a smaller total mass. float32 data is far from both, because all arithmetic is float64.
LARGEST = 1e150
SMALLEST = 1e-140

# Products of smaller probabilities and distances, and quotients, lose their digits.
LEAST_PROBABILITY = 1e-140


class Range(NamedTuple):
    """Valid values, both ends included; NaN is never valid.

    One definition of each rule serves those who raise the first error and those who list them all.
    """

    low: float
    high: float

    def holds(self, values: Array) -> bool:
        """Whether all of some values, at least one, are valid; allocates nothing."""
        return float(values.min()) >= self.low and float(values.max()) <= self.high

    def outside(self, values: Array) -> Mask:
        """Which values are not valid."""
        values = values.astype(np.float64, copy=False)
        return ~((values >= self.low) & (values <= self.high))


COORDINATES = Range(-LARGEST, LARGEST)
PROBABILITIES = WEIGHTS = Range(0.0, LARGEST)

# Elements that a thread checks at a time: they stay in its cache between two checks.
CHECK_GRAIN = 1 << 17


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return a parameter as Python's int, which does not overflow; raise unless it is whole and large enough."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not value >= least:
        is_data = hasattr(value, "shape") and len(value.shape) > 0
        given = f"data of shape {value.shape}" if is_data else repr(value)
        order = " Write PLloyd(n_clusters).fit(X) or solve(X, n_clusters)." if is_data and name == "n_clusters" else ""
        raise InputError(f"{name} is {given}, but must be a whole number of at least {least}.{order}")
    return int(value)


# Smaller errors and probabilities cannot be guaranteed in float64.
LEAST_SHARE = 1e-12


def check_share(name: str, value: Any) -> None:
    """Raise unless a parameter is a number between 0 and 1, and not too small to compute with."""
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not real or not LEAST_SHARE <= value < 1.0:
        raise InputError(f"{name} is {value!r}, but must lie between 0 and 1, and not below {LEAST_SHARE}.")


# How to treat rows that lack a value.
MISSING = ("error", "skip-row", "skip-node", "absent")


def check_choice(name: str, value: Any, known: Sequence[str]) -> None:
    """Raise unless a parameter is one of some words."""
    if value not in known:
        raise InputError(f"{name} is {value!r}, but must be one of {', '.join(known)}.")


def check_missing(missing: str, probabilities: str) -> None:
    """Raise on an unknown option of how to read tables, and on two that contradict each other."""
    check_choice("missing", missing, MISSING)
    if missing == "absent" and probabilities == "normalize":
        raise InputError(
            "missing 'absent' and probabilities 'normalize' contradict each other: the first takes probability away, "
            "the second restores it. Use missing 'skip-row'."
        )


# -- random numbers ---------------------------------------------------------------------------------------------------


def generator(random_state: Any) -> np.random.Generator:
    """Return a Generator for None, an int, a SeedSequence, a Generator or a RandomState (which is advanced)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    if random_state is None or isinstance(random_state, (int, np.integer, np.random.SeedSequence)):
        try:
            return np.random.default_rng(random_state)
        except ValueError:
            raise InputError(f"random_state is {random_state}, but a seed must not be negative.") from None
    raise InputError(f"random_state must be None, an int, a Generator or a RandomState, not {random_state!r}.")


def seed_of(random_state: Any) -> int:
    """Return a seed that can be saved, for :func:`keyed`.

    An int is its own seed; anything else gives 128 random bits.
    """
    rng = generator(random_state)
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return sum(int(word) << (32 * i) for i, word in enumerate(rng.integers(2**32, size=4)))


def keyed(seed: int, *key: int) -> np.random.Generator:
    """Return the generator of a key, independent of those of all other keys and of earlier draws."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


# -- arrays -----------------------------------------------------------------------------------------------------------


def frozen(array: Array) -> Array:
    """Return a read-only view in C order (a copy only if it was not); the caller's own array stays writable."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


# Longer constant arrays are not shared. Leaves of plain points are shorter, for up to 20 clusters.
MAX_SHARED = 1 << 18
_shared: dict[float, Array] = {}


def constant(value: float, n: int) -> Array:
    """Read-only array of n times the same number; short ones share memory, which is written once."""
    if n > MAX_SHARED:
        return frozen(np.full(n, value))
    shared = _shared.get(value)
    if shared is None or len(shared) < n:
        shared = _shared[value] = frozen(np.full(1 << max(10, n.bit_length()), value))
    return shared[:n]


def as_array(values: Any, name: str) -> Array:
    """Return an array of any dtype; ragged lists and masked values are refused."""
    if _has_masked(values):
        raise InputError(f"{name} has masked values. Fill them, or drop the nodes that have them.")
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name} cannot be made an array: {error}.") from None


def _has_masked(values: Any) -> bool:
    """Whether a value is masked in an array, or in one of the arrays in a list: NumPy would ignore the masks."""
    # Not np.ma: that would import it, and whoever has such an array has imported it. Another thread may be about to.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is None:
        return False
    if isinstance(values, (list, tuple)):
        return any(_has_masked(part) for part in values if isinstance(part, (list, tuple, masked)))
    return isinstance(values, masked) and bool(sys.modules["numpy.ma"].is_masked(values))


def as_floats(values: Any, name: str, n_dimensions: int, dtype: Any = None) -> Array:
    """Return float32 or float64 in native byte order; integers become float64, everything else is refused."""
    array = as_array(values, name)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must be real numbers, but has dtype {array.dtype}. Convert it to float32 or float64.")
    if array.ndim != n_dimensions:
        raise InputError(
            f"{name} must have {n_dimensions} dimension{'s' * (n_dimensions > 1)}, but its shape is {array.shape}."
        )
    if dtype is None:
        dtype = np.float32 if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else np.float64
    with np.errstate(over="ignore"):
        return array.astype(dtype, copy=False)


def check_array_like(X: Any) -> None:
    """Raise unless X is an array or a list; the message names the call that makes nodes of it."""
    name = type(X).__name__
    if hasattr(X, "coreset"):
        raise InputError(
            f"A {name} no longer has its nodes: solve it, call its evaluate(centers), or use its coreset() as nodes."
        )
    if hasattr(X, "columns") or hasattr(X, "schema"):
        raise InputError(
            f"X is a {name}: Nodes.from_table(X) makes nodes of it. If all columns are coordinates of certain nodes, "
            "give them as an array."
        )
    if hasattr(X, "toarray"):
        raise InputError(
            f"X is a sparse {name}. Give X.toarray(), or, for probabilities, Nodes.from_matrix(points, X)."
        )
    if not (hasattr(X, "__array__") or hasattr(X, "__array_interface__") or isinstance(X, (list, tuple))):
        raise InputError(
            f"Expected Nodes, an array of shape (n, d) or (n, m, d), or a list of arrays of shape (m, d), not {name}."
        )


def is_list_of_arrays(X: Any) -> bool:
    """Whether X is a list of 2-D arrays, or an array of them."""
    if isinstance(X, np.ndarray):
        X = X.tolist() if X.dtype == object and X.ndim == 1 else ()
    if not isinstance(X, (list, tuple)) or len(X) == 0:
        return False
    try:
        return np.ndim(X[0]) == 2
    except ValueError:  # ragged, and the error about it names what it is a part of
        return False


# -- nodes ------------------------------------------------------------------------------------------------------------


class NodeParts(NamedTuple):
    """What Nodes hold: checked, frozen arrays; None in place of ones, and of the offsets of certain nodes."""

    points: Array  # (n_realizations, n_features) float32 or float64
    probabilities: Array | None  # (n_realizations,)
    offsets: Array | None  # (n_nodes + 1,)
    weights: Array | None  # (n_nodes,)
    ids: Array | None  # (n_nodes,)
    total_probabilities: Array | None  # (n_nodes,)
    magnitude: float  # at least the largest absolute coordinate
    # Arrays with one row per node, or tuples of them, by name: they are sliced together with the nodes.
    statistics: dict[str, Any]


def certain_parts(points: Array, weights: Any, ids: Any) -> NodeParts:
    """Parts of nodes with one realization each, which is certain."""
    magnitude, n_nodes = check_points(points), len(points)
    given = None if weights is None else as_weights(weights, n_nodes)
    return NodeParts(points, None, None, given, as_ids(ids, n_nodes), None, magnitude, {})


def checked_parts(points: Any, probabilities: Any, offsets: Any, weights: Any, ids: Any) -> tuple[NodeParts, int]:
    """Parts of nodes, and for how many rounding put the sum of probabilities above 1."""
    points = frozen(as_floats(points, "points", 2))
    offsets = frozen(check_offsets(offsets, len(points)))
    n_nodes = len(offsets) - 1
    if probabilities is None and n_nodes == len(points):
        return certain_parts(points, weights, ids), 0
    if probabilities is None:
        probabilities = equal_probabilities(offsets, points.dtype)
    probabilities = as_floats(probabilities, "probabilities", 1, points.dtype)
    totals = check_probabilities(probabilities, offsets)
    probabilities, totals, n_rounded = without_rounding(probabilities, offsets, totals)
    magnitude, weights, ids = check_points(points, offsets), as_weights(weights, n_nodes), as_ids(ids, n_nodes)
    return NodeParts(points, frozen(probabilities), offsets, weights, ids, frozen(totals), magnitude, {}), n_rounded


def check_points(points: Array, offsets: Array | None = None, each: str = "Node") -> float:
    """Raise on NaN, infinity and magnitudes whose squares leave float64; return the largest magnitude.

    Without offsets, ``each`` says what a point is.
    """
    if points.shape[1] == 0:
        raise InputError(f"Points have no features: their shape is {points.shape}.")
    flat = points.reshape(-1)
    magnitude = largest_magnitude(points)
    if not magnitude <= COORDINATES.high:
        row, feature = divmod(_first(COORDINATES.outside(flat)), points.shape[1])
        value = points[row, feature]
        advice = "Divide all coordinates by a constant." if np.isfinite(value) else "Drop the node or repair the value."
        reason = ", so large that distances overflow" if np.isfinite(value) else ""
        raise InputError(f"{_where(row, offsets, each)} has {value} in feature {feature}{reason}. {advice}")
    if 0.0 < magnitude < SMALLEST:
        raise InputError(
            f"All coordinates are below {magnitude:.0e}, so small that squared distances vanish. "
            "Multiply them by a constant."
        )
    return float(magnitude)


def _first(mask: Array) -> int:
    return int(np.flatnonzero(mask)[0])


def largest_magnitude(points: Array) -> float:
    """Largest absolute value; infinite or NaN if there is such a one."""
    flat = points.reshape(-1)
    pieces = _parallel.ranges(flat.size, CHECK_GRAIN)
    return float(np.max(_parallel.run(_magnitude_of_part, pieces, flat), initial=0.0))


def _magnitude_of_part(flat: Array, start: int, stop: int) -> Any:
    # NumPy's own loops, not a kernel: they are as fast, let other threads run, and propagate NaN, which fast
    # floating-point loops may lose.
    part = flat[start:stop]
    return np.maximum(part.max(), -part.min())


def _where(row: int, offsets: Array | None, each: str = "Node") -> str:
    if offsets is None:
        return f"{each} {row}"
    node = int(np.searchsorted(offsets, row, side="right")) - 1
    if offsets[node + 1] - offsets[node] == 1:
        return f"Node {node}"
    return f"Node {node} (row {row} of the points)"


def check_offsets(offsets: Any, n_points: int) -> Array:
    """Raise unless offsets start at 0, grow, and end at the number of points."""
    array = as_array(offsets, "offsets")
    if array.dtype.kind not in "iu" and array.size:
        raise InputError(f"Offsets must be integers, but have dtype {array.dtype}.")
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"Offsets must be a 1-D array of n_nodes + 1 numbers, but their shape is {array.shape}.")
    if array[0] != 0:
        raise InputError(f"Offsets must start at 0, but start at {array[0]}.")
    # Compared, not subtracted: the difference of two offsets may overflow.
    grows = array[1:] > array[:-1]
    if not grows.all():
        node = int(np.flatnonzero(~grows)[0])
        problem = "has no realization" if array[node] == array[node + 1] else "has offsets that decrease"
        raise InputError(f"Node {node} {problem} (offsets {array[node]} to {array[node + 1]}). Drop the node.")
    if array[-1] != n_points:
        raise InputError(f"Offsets end at {array[-1]}, but there are {n_points} points. They must end there.")
    return array.astype(np.int64, copy=False)


def max_allowed(n_realizations: Any, dtype: Any) -> Any:
    """Largest sum of the probabilities of ``n_realizations`` that needs no correction.

    Ten times float32(0.1) is above 1. A sum that was normalized in the dtype of the data is off by a few units in the
    last place of each addition, which behave like a random walk.
    """
    return 1.0 + 4.0 * np.finfo(dtype).eps * (4.0 + np.sqrt(n_realizations))


# What rounding to six decimals, and then to float32, adds at most to a probability.
MAX_ROUNDED = 0.5e-6 + 2.0**-24
# It would explain any sum of very many small probabilities; beyond this excess they have lost their meaning.
MAX_EXCESS = 0.01


def is_above_1(totals: Any, n_realizations: Any, dtype: Any) -> Any:
    """Which sums of probabilities are larger than rounding explains; others are corrected by without_rounding."""
    rounded = 1.0 + np.minimum(MAX_ROUNDED * np.asarray(n_realizations), MAX_EXCESS)
    return totals > np.maximum(max_allowed(n_realizations, dtype), rounded)


def check_probabilities(probabilities: Array, offsets: Array, precision: Any = None) -> Array:
    """Raise on probabilities outside [0, 1] and sums above 1 or equal to 0; return the sums as float64.

    Sums that rounding explains are allowed here: :func:`without_rounding` corrects them. ``precision`` is the dtype in
    which they were normalized, if it is not their own.
    """
    totals = _sums(probabilities, offsets)
    above = is_above_1(totals, np.diff(offsets), precision or probabilities.dtype)
    if above.any():
        node = _first(above)
        rows = f"rows {offsets[node]}-{offsets[node + 1] - 1} of the points"
        raise InputError(
            f"Node {node} ({rows}) has probabilities that sum to {totals[node]:.9g}, above 1. "
            "Divide them by their sum, or drop the node."
        )
    return totals


def _sums(probabilities: Array, offsets: Array) -> Array:
    """Sum of the probabilities of each node; raise on what is no probability, and on sums of 0."""
    if len(probabilities) != offsets[-1]:
        raise InputError(f"There are {len(probabilities)} probabilities for {offsets[-1]} points.")
    if len(offsets) == 1:
        return np.zeros(0)
    if not PROBABILITIES.holds(probabilities):
        row = _first(PROBABILITIES.outside(probabilities))
        raise InputError(
            f"{_where(row, offsets)} has a probability of {probabilities[row]}. Probabilities must lie between 0 and 1."
        )
    totals = sums_per_node(probabilities, offsets[:-1])
    if is_zero(totals.min()):
        node = _first(is_zero(totals))
        reason = "so small that its distances vanish" if totals[node] else "so it is always absent"
        raise InputError(f"Node {node} has total probability {totals[node]:.3g}, {reason}. Drop it.")
    return totals


def sums_per_node(probabilities: Array, starts: Array) -> Array:
    """Sums in float64; nodes begin at ``starts``, and each has a realization."""
    if len(starts) == len(probabilities):
        return probabilities.astype(np.float64, copy=False)
    return np.add.reduceat(probabilities, starts, dtype=np.float64)


def is_zero(totals: Any) -> Any:
    """Which sums of probabilities are 0, or too small to compute with."""
    return totals <= LEAST_PROBABILITY


def without_rounding(probabilities: Array, offsets: Array, totals: Array) -> tuple[Array, Array, int]:
    """Divide the probabilities of nodes by their sum where rounding has put it above 1.

    Returns probabilities and sums, and the number of these nodes; ``totals`` are from :func:`check_probabilities`.
    """
    sizes = np.diff(offsets)
    above = totals > max_allowed(sizes, probabilities.dtype)
    if not above.any():
        return probabilities, totals, 0
    corrected = (probabilities / np.repeat(np.where(above, totals, 1.0), sizes)).astype(probabilities.dtype)
    return corrected, _sums(corrected, offsets), int(above.sum())


def warn_of_rounding(n_normalized: int, n_nodes: int) -> None:
    """Warn that probabilities were divided by their sums."""
    _notes.warn(
        f"The probabilities of {n_normalized:,} of {n_nodes:,} nodes sum to slightly more than 1, as rounded ones do. "
        "They were divided by their sum.",
        InputWarning,
    )


def normalized(probabilities: Array, offsets: Array) -> Array:
    """Probabilities from proportions: each divided by the sum of its node."""
    totals = np.repeat(_sums(probabilities, offsets), np.diff(offsets))
    shares: Array = probabilities / totals
    return shares.astype(probabilities.dtype)


def check_weights(weights: Array, n_nodes: int) -> None:
    """Raise on negative, NaN and infinite weights, and on sums that would overflow a cost."""
    if len(weights) != n_nodes:
        raise InputError(f"There are {len(weights)} weights for {n_nodes} nodes.")
    if n_nodes == 0:
        return
    if not WEIGHTS.holds(weights):
        node = _first(WEIGHTS.outside(weights))
        raise InputError(f"Node {node} has weight {weights[node]}. Weights must lie between 0 and {WEIGHTS.high:g}.")
    total = weights.sum()
    if total > WEIGHTS.high:
        raise InputError(f"The weights sum to {total:.0e}, so large that a cost overflows. Divide them by a constant.")


def check_mass(total: float, magnitude: float = SMALLEST) -> None:
    """Raise on a positive total mass with which costs lose their digits, among coordinates of some magnitude."""
    if total > 0.0 and total * (magnitude or 1.0) < SMALLEST * SMALLEST:
        raise InputError(
            f"The total mass is {total:.0e}, so small that costs vanish. Multiply all weights by a constant."
        )


def equal_probabilities(offsets: Array, dtype: Any) -> Array:
    """Probabilities of realizations that are equally likely in each node, and sum to 1."""
    sizes = np.diff(offsets)
    return np.repeat(np.divide(1.0, sizes).astype(dtype), sizes)


def as_weights(weights: Any, n_nodes: int) -> Array:
    """Return checked, frozen weights; ones where there are none."""
    if weights is None:
        return constant(1.0, n_nodes)
    array = as_floats(weights, "weights", 1, np.float64)
    check_weights(array, n_nodes)
    return frozen(array)


def as_index(index: Any, n_nodes: int) -> Array:
    """Return numbers of nodes, counted from the start; negative ones count from the end."""
    chosen = np.asarray(index)
    if chosen.size == 0:
        chosen = chosen.astype(np.int64)
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1:
        raise InputError(f"Node numbers must be 1-D and integers, not {chosen.dtype} of shape {chosen.shape}.")
    if chosen.size and not (-n_nodes <= chosen.min() and chosen.max() < n_nodes):
        worst = chosen.max() if chosen.max() >= n_nodes else chosen.min()
        raise IndexError(f"There is no node {worst}: the numbers go from 0 to {n_nodes - 1}.")
    chosen = chosen.astype(np.int64)
    return np.where(chosen < 0, chosen + n_nodes, chosen)


def as_ids(ids: Any, n_nodes: int) -> Array | None:
    """Return checked, frozen ids, if there are any."""
    if ids is None:
        return None
    array = as_array(ids, "ids")
    if array.shape != (n_nodes,):
        raise InputError(f"Ids have shape {array.shape}, but there are {n_nodes} nodes.")
    return frozen(array)


def concat_ids(parts: Sequence[Array]) -> Array:
    """Ids of all parts, as they are; kinds that NumPy would turn into each other are an error."""
    given = [part for part in parts if len(part)] or list(parts[:1])  # an empty part has no kind
    names = {part.dtype.names for part in given}
    if len(names) > 1:
        raise InputError("Ids have different fields. Give all nodes ids with the same fields.")
    for name in names.pop() or (None,):
        columns = given if name is None else [part[name] for part in given]
        kinds = {_kind_of_ids(column): column.dtype for column in columns}
        if len(kinds) == 1 and {column.dtype.kind for column in columns} == {"i", "u"}:  # float64 to NumPy
            kinds = {str(column.dtype): column.dtype for column in columns}
            kinds = kinds if np.result_type(*kinds.values()).kind == "f" else {}
        if len(kinds) > 1:
            one, other = list(kinds)[:2]
            raise InputError(f"Some ids are {one}, others are {other}. Use one kind.")
    return np.concatenate(given)


# Units of dates that files of summaries can hold.
DATES = [(unit, 1) for unit in ("D", "s", "ms", "us", "ns")]


def plain_ids(ids: Array) -> Array | None:
    """Ids in one dtype per kind, as readers make them: int64, uint64, float64, bool, str objects, dates as they are.

    None if they are of another kind.
    """
    names, kind = ids.dtype.names, ids.dtype.kind
    if names:
        fields = {name: plain_ids(ids[name]) for name in names}
        plain = {name: field for name, field in fields.items() if field is not None}
        if len(plain) < len(fields):
            return None
        out = np.empty(len(ids), [(name, field.dtype) for name, field in plain.items()])
        for name, field in plain.items():
            out[name] = field
        return out
    if ids.ndim != 1 or kind not in "iufbMOUT":
        return None
    if kind in "OUT":
        texts = ids.astype(object)
        return texts if _is_text(texts.tolist()) else None
    if kind in "iu":
        return ids.astype(np.uint64 if ids.dtype.itemsize == 8 and kind == "u" else np.int64, copy=False)
    if kind == "M":
        return ids.astype(ids.dtype.newbyteorder("="), copy=False) if np.datetime_data(ids.dtype) in DATES else None
    return ids.astype(np.float64 if kind == "f" else bool, copy=False)


def _is_text(values: list[Any]) -> bool:
    """Whether all values are text that can be written to a file: half of a surrogate pair cannot."""
    if {type(value) for value in values} - {str}:
        return False
    try:
        "".join(values).encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind_of_ids(ids: Array) -> str:
    if ids.dtype == object:
        kinds = {type(value) for value in ids.tolist()}
        return "text" if kinds == {str} else " or ".join(sorted(kind.__name__ for kind in kinds))
    kinds_of_dtypes = {"i": "whole numbers", "u": "whole numbers", "f": "numbers", "U": "text", "M": "dates"}
    return kinds_of_dtypes.get(ids.dtype.kind, str(ids.dtype))
