"""What users give as nodes: Nodes, arrays, lists of arrays."""

from typing import Any

import numpy as np

from probi.errors import InputError
from probi.nodes import Nodes
from probi.validation import as_array


def as_nodes(X: Any) -> Nodes:
    """Nodes as they are; arrays and lists of arrays by their shape; otherwise an error that names the right call."""
    if isinstance(X, Nodes):
        return X
    _refuse_others(X)
    if _is_list_of_arrays(X):
        return Nodes.from_list(X)
    array = as_array(X, "X")
    if array.ndim == 2:
        return Nodes.from_points(array)
    if array.ndim == 3:
        return Nodes.from_dense(array)
    raise InputError(f"X has shape {array.shape}. {_advice(array.shape)}")


def holds_realizations(X: Any) -> bool:
    """Whether X may have several points per node: Nodes, a 3-D array or a list of 2-D arrays."""
    return isinstance(X, Nodes) or getattr(X, "ndim", 0) == 3 or _is_list_of_arrays(X)


def _is_list_of_arrays(X: Any) -> bool:
    if isinstance(X, np.ndarray):
        X = X.tolist() if X.dtype == object and X.ndim == 1 else ()
    if not isinstance(X, (list, tuple)) or len(X) == 0:
        return False
    try:
        return np.ndim(X[0]) == 2
    except ValueError:  # ragged, and the error about it names what it is a part of
        return False


def _refuse_others(X: Any) -> None:
    name = type(X).__name__
    if hasattr(X, "coreset"):
        raise InputError(
            f"A {name} has no nodes any more: solve it, ask its evaluate(centers), or take its coreset() as nodes."
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


def _advice(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return "Give X.reshape(-1, 1) for points with one feature, or X.reshape(1, -1) for one point."
    return "Nodes are (n, d) for points, (n, m, d) for m realizations each, or a list of arrays of shape (m, d)."
