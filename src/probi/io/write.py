"""Results as files: centers, assignments, nodes in any layout and format. Each file is replaced atomically."""

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from probi._files import AnyPath, replacing, write_atomically
from probi._types import Array
from probi.errors import InputError
from probi.io.formats.base import Format, TableWriter, format_of_name, formats_by_ending, list_endings, load_format
from probi.io.node_assembler import Batch
from probi.io.rows import FILE
from probi.io.transform import Transform
from probi.medoids import Representatives
from probi.nodes import Nodes
from probi.objective import LabelMemberships, TwoNearest, label_memberships
from probi.solver.result import Result
from probi.tables.columns import Columns
from probi.tables.convert import to_table
from probi.tables.to_arrays import id_columns, id_type

# Columns of centers.parquet that are not features.
CENTER_COLUMNS = (
    "n_clusters", "cluster", "cluster_mass", "cluster_cost", "cluster_spread", "representative", "representative_cost",
)  # fmt: skip


# -- centers ----------------------------------------------------------------------------------------------------------


def write_centers(
    folder: AnyPath, results: Sequence[Result], space: Transform, reading: Mapping[str, Any] | None = None
) -> None:
    """Write centers.parquet and centers.csv, with a row per center, in original units.

    The column "representative" has ids of nodes; it is null if nodes have no ids. The metadata of centers.parquet has
    the exact coordinates, the transform, and how files were read.
    """
    import pyarrow.csv as pacsv

    columns: dict[str, Any] = {
        "n_clusters": np.concatenate([np.full(len(result.centers), len(result.centers)) for result in results]),
        "cluster": np.concatenate([np.arange(len(result.centers)) for result in results]),
    }
    centers = np.concatenate([space.inverse(result.centers) for result in results])
    columns |= {name: centers[:, j] for j, name in enumerate(space.features)}
    for name in ("mass", "cost", "spread"):
        columns[f"cluster_{name}"] = np.concatenate([getattr(result.clusters, name) for result in results])
    representatives = [result.representatives for result in results]
    columns["representative"] = _ids_of_representatives(representatives)
    columns["representative_cost"] = np.concatenate([chosen.cost for chosen in representatives])
    if len(columns) != len(CENTER_COLUMNS) + len(space.features):
        raise InputError(f"A feature has one of the names {', '.join(CENTER_COLUMNS)}. Give it another one.")
    coordinates = [result.centers.tolist() for result in results]
    distances = [None if result.outlier_distance == math.inf else result.outlier_distance for result in results]
    about = {
        "space": space.to_json(), "coordinates": coordinates, "reading": reading, "outlier_distances": distances
    }  # fmt: skip
    table = pa.table(columns).replace_schema_metadata({"probi": json.dumps(about)})
    write_table(folder / "centers.parquet", table)
    if table.schema.field("representative").type == pa.string():
        at, texts = table.schema.get_field_index("representative"), table["representative"].to_pylist()
        table = table.set_column(at, "representative", pa.array(map(_guarded, texts), pa.string()))
    with replacing(folder / "centers.csv") as path:
        pacsv.write_csv(table.rename_columns([str(_guarded(name)) for name in table.column_names]), path)


# Spreadsheets take text that begins so for a formula, unless GUARD precedes it.
FORMULA, GUARD = ("=", "+", "-", "@", "\t", "\r"), "'"


def _guarded(text: str | None) -> str | None:
    return GUARD + text if text is not None and text.startswith(FORMULA) else text


def _without_guard(name: str) -> str:
    return name[1:] if name.startswith(tuple(GUARD + sign for sign in FORMULA)) else name


def _ids_of_representatives(representatives: Sequence[Representatives]) -> pa.Array:
    """Ids of the representatives of all solutions; null where there is none.

    A single column of ids keeps its type; several become text.
    """
    missing = np.concatenate([chosen.index for chosen in representatives]) < 0
    ids = [chosen.ids for chosen in representatives if chosen.ids is not None]
    if len(ids) < len(representatives):
        return pa.nulls(len(missing), pa.string())
    if ids[0].dtype.names is not None:
        return pa.array([name or None for chosen in representatives for name in chosen.names], pa.string())
    return pa.array(np.concatenate(ids), mask=missing)


@dataclass(frozen=True)
class Centers:
    """Centers of a file: coordinates (k, d) and, if stored, their transform and how their run read its files."""

    coordinates: Array
    space: Transform | None
    features: tuple[str, ...]
    reading: Mapping[str, Any] | None = None
    outlier_distance: float = math.inf  # nodes that are farther, beyond their spread, are outliers


def read_centers(path: AnyPath, n_clusters: int | None = None) -> Centers:
    """Centers that :func:`write_centers` wrote, or any table of features with a row per center.

    CSV does not store the transform: for a centers.csv of results, it is read from the centers.parquet beside it.
    """
    if path.is_dir():
        path = path / "centers.parquet"
    if not path.is_file():
        raise InputError(f"There is no file {path} with centers.")
    with _raising_input_errors(path):
        table = _read_table(path)
        solutions = _solutions(path, table)
        if path.name == "centers.csv" and path.with_suffix(".parquet").is_file():
            solutions = _in_space_of_results(solutions, table, path.with_suffix(".parquet"))
    if not solutions:
        raise InputError(f"{path} contains no centers.")
    if n_clusters is None and len(solutions) > 1:
        raise InputError(f"{path} has centers for {', '.join(map(str, solutions))} clusters. Choose with -k.")
    chosen = next(iter(solutions)) if n_clusters is None else n_clusters
    if chosen not in solutions:
        raise InputError(f"{path} has no centers for {chosen} clusters, but for {', '.join(map(str, solutions))}.")
    return solutions[chosen]


def reading_of_run(path: AnyPath) -> Mapping[str, Any]:
    """How the run of a folder of results, or of its centers.parquet, read its files."""
    path = path / "centers.parquet" if path.is_dir() else path
    if not path.is_file() or path.suffix != ".parquet":
        raise InputError(f"{path} is not a centers.parquet of results. Name a folder written by probi cluster.")
    with _raising_input_errors(path):
        reading = next((centers.reading for centers in _solutions(path, _read_table(path)).values()), None)
    if reading is None:
        raise InputError(f"{path} does not record how its run read its files.")
    return reading


@contextlib.contextmanager
def _raising_input_errors(path: AnyPath) -> Iterator[None]:
    """Turn every error into an InputError that names the file: damaged or forged centers may fail anywhere."""
    try:
        yield
    except InputError as error:
        if str(error).startswith(str(path)):
            raise
        raise InputError(f"{path}: centers cannot be read: {error}") from None
    except Exception as error:
        text = " ".join(str(error).split()) if isinstance(error, (pa.ArrowException, OSError)) else repr(error)
        raise InputError(f"{path}: centers cannot be read: {text[:300].rstrip('.')}.") from None


def _read_table(path: AnyPath) -> pa.Table:
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    with path.open("rb") as file:
        if path.suffix == ".parquet":
            return pq.read_table(file)
        if b"\0" in file.read(1 << 12):
            raise InputError(f"{path}: centers cannot be read: it is neither text nor called .parquet.")
        file.seek(0)
        table = pacsv.read_csv(file)
        return table.rename_columns(list(map(_without_guard, table.column_names)))


def _in_space_of_results(solutions: dict[int, Centers], table: pa.Table, results: AnyPath) -> dict[int, Centers]:
    """Centers of a centers.csv in the space of the centers.parquet beside it; its own if nothing was changed."""
    exact = _read_table(results)
    exact_solutions = _solutions(results, exact)
    space, reading = next(((c.space, c.reading) for c in exact_solutions.values()), (None, None))
    if space is None or any(centers.features != space.features for centers in solutions.values()):
        return solutions
    # Representatives are not compared: ids that look like numbers lose their type in CSV.
    in_csv, in_parquet = (either.drop_columns("representative") for either in (table, exact))
    if in_csv.cast(in_parquet.schema).equals(in_parquet):
        return exact_solutions
    return {k: Centers(space.coordinates(c.coordinates), space, c.features, reading) for k, c in solutions.items()}


def _solutions(path: AnyPath, table: pa.Table) -> dict[int, Centers]:
    """Centers of each solution in a file, by number of clusters."""
    features = tuple(name for name in table.column_names if name not in CENTER_COLUMNS)
    about = (table.schema.metadata or {}).get(b"probi")
    if about is not None:
        values = json.loads(about)
        space = Transform.from_json(values["space"])
        arrays = [np.array(rows, np.float64).reshape(len(rows), -1) for rows in values["coordinates"]]
        reading = values.get("reading")
        limits = values.get("outlier_distances", [None] * len(arrays))
        distances = [math.inf if limit is None else float(limit) for limit in limits]
        return {
            len(array): Centers(array, space, space.features, reading, distance)
            for array, distance in zip(arrays, distances, strict=True)
        }
    if not features:
        raise InputError(f"{path} contains no features, only {', '.join(table.column_names)}.")
    try:
        values = np.column_stack([table[name].to_numpy().astype(np.float64) for name in features])
        if not np.isfinite(values).all():
            raise ValueError
    except (ValueError, TypeError):
        raise InputError(f"{path}: a center has a value that is not a number.") from None
    if "n_clusters" not in table.column_names:
        return {len(values): Centers(values, None, features)} if len(values) else {}
    counts = table["n_clusters"].to_numpy()
    return {int(k): Centers(values[counts == k], None, features) for k in np.unique(counts)}


# -- assignments ------------------------------------------------------------------------------------------------------


def assignment_table(
    batch: Batch, columns: dict[str, Array], names: Sequence[str], id_name: str, file: str | None
) -> pa.Table:
    """Table with a row per node: where it comes from, its id, and the columns of its assignment.

    ``names`` are those of the files read; ``file`` is the field of the ids that has the same names, if there is one.
    """
    ids = {_id_column(name): values for name, values in id_columns(batch.nodes.ids, id_name).items() if name != file}
    files, rows = np.divmod(batch.where, FILE)
    origin: dict[str, pa.Array] = {}
    if _has_file(len(names), file):
        origin["file"] = pa.DictionaryArray.from_arrays(pa.array(files.astype(np.int32)), pa.array(names))
    # The first row of a file is 1, as in messages.
    origin |= {"row": pa.array(rows + 1)} | ids
    return pa.table(origin | {name: pa.array(values) for name, values in columns.items()})


def _id_column(name: str) -> str:
    """Name of a column of ids, with an underscore if another column has that name."""
    return f"{name}_" if name in ("file", "row", *(column for column, *_ in ASSIGNMENT_COLUMNS)) else name


def _has_file(n_files: int, file: str | None) -> bool:
    """Whether assignments have a column "file": if there are several files, or if the file is a part of the id."""
    return n_files > 1 or file is not None


# Columns of an assignment to one set of centers: name, type, and values by the two nearest centers and the memberships
# of nodes. A single center has only the first three, since there is no second center.
ASSIGNMENT_COLUMNS: tuple[tuple[str, pa.DataType, Callable[[TwoNearest, LabelMemberships], Array]], ...] = (
    ("cluster", pa.int32(), lambda nearest, _: nearest.labels),
    ("expected_distance", pa.float64(), lambda nearest, _: nearest.distances),
    ("probability", pa.float64(), lambda _, members: members.probabilities),
    ("next_cluster", pa.int32(), lambda nearest, _: nearest.next_labels),
    ("next_distance", pa.float64(), lambda nearest, _: nearest.next_distances),
    ("margin", pa.float64(), lambda nearest, _: nearest.margins),
    ("second", pa.int32(), lambda _, members: members.second),
    ("second_probability", pa.float64(), lambda _, members: members.second_probabilities),
)


def assignment_columns(nodes: Nodes, centers: Array, nearest: TwoNearest, suffix: str) -> dict[str, Array]:
    """Columns of the assignment of nodes to centers, of which the two nearest are known."""
    members = label_memberships(nodes, centers, nearest)
    return {name + suffix: values(nearest, members) for name, _, values in _columns_for(len(centers))}


def _columns_for(n_centers: int) -> tuple[tuple[str, pa.DataType, Callable[..., Array]], ...]:
    """ASSIGNMENT_COLUMNS for so many centers."""
    return ASSIGNMENT_COLUMNS[: None if n_centers > 1 else 3]


def empty_assignment_table(schema: pa.Schema, columns: Columns, ks: Sequence[int], n_files: int) -> pa.Table:
    """The columns of :func:`assignment_table` without rows, for nodes of tables with this schema."""
    fields = [("file", pa.dictionary(pa.int32(), pa.string()))] if _has_file(n_files, columns.file) else []
    fields.append(("row", pa.int64()))
    fields += [(_id_column(name), id_type(schema.field(name).type)) for name in columns.stored_ids]
    for k in ks:
        fields += [(name + (f"_{k}" if len(ks) > 1 else ""), type) for name, type, _ in _columns_for(k)]
    return pa.schema(fields).empty_table()


@contextlib.contextmanager
def assignment_file(path: AnyPath) -> Iterator["OutputFile"]:
    """File for tables of :func:`assignment_table`, in the format of its name; it appears when it is complete."""
    format = assignment_format(path)
    with replacing(path) as temporary, contextlib.closing(OutputFile(format, temporary, path.name)) as file:
        yield file
        if file.is_empty:
            file.write(pa.table({"row": pa.array([], pa.int64())}))


def assignment_format(path: AnyPath) -> Format:
    """Format of a file of assignments, by its name."""
    return _format_to_write(path, lambda format: format.create is not None)


# -- nodes ------------------------------------------------------------------------------------------------------------


def write_nodes(
    path: AnyPath,
    batches: Iterable[Nodes],
    layout: str,
    features: Sequence[str],
    weighted: bool = False,
    id_name: str = "id",
) -> int:
    """Write nodes in a layout, in the format of the file name; return the number of nodes.

    If not ``weighted``, all weights are 1, and layouts that do not need a column of weights have none.
    """
    format = nodes_format(path)
    n_nodes = 0
    with replacing(path) as temporary, contextlib.closing(OutputFile(format, temporary, path.name)) as file:
        if format.write_nodes is not None:
            n_nodes = format.write_nodes(temporary, batches, layout)
        else:
            for nodes in batches:
                file.write(_node_table(nodes, layout, features, weighted, id_name, n_nodes))
                n_nodes += len(nodes)
        if n_nodes == 0:
            raise InputError("There are no nodes to write.")
    return n_nodes


def _node_table(
    nodes: Nodes, layout: str, features: Sequence[str], weighted: bool, id_name: str, n_before: int
) -> pa.Table:
    """Table of one batch of nodes; those without ids are numbered from ``n_before``."""
    table = to_table(nodes, layout, features)
    if weighted and layout != "groups" and "weight" not in table.column_names:
        # All weights of this batch are 1, but all batches must have the same columns.
        table = table.append_column("weight", pa.array(np.ones(len(table))))
    if nodes.ids is None and layout == "long":
        return table.set_column(0, "id", pa.array(np.asarray(table["id"]) + n_before))
    if nodes.ids is not None and nodes.ids.dtype.names is None and "id" in table.column_names:
        return table.rename_columns({"id": id_name})
    return table


def nodes_format(path: AnyPath) -> Format:
    """Format of a file of nodes, by its name."""
    return _format_to_write(path, lambda format: format.create is not None or format.write_nodes is not None)


def _format_to_write(path: AnyPath, can_write: Callable[[Format], bool]) -> Format:
    """Format of a file by its name; raise if there is none, or if it cannot be written."""
    name = format_of_name(path.name)
    if name is None or not can_write(load_format(name)):
        endings = [ending for ending, name in formats_by_ending().items() if can_write(load_format(name))]
        raise InputError(f"Cannot infer a format for {path}; use one of {list_endings(endings)}.")
    return load_format(name)


# -- tables -----------------------------------------------------------------------------------------------------------


class OutputFile:
    """A file to which tables with the same columns are written, one after the other.

    ``path`` is the temporary file that is written, ``name`` the final name, whose ending may matter to the format.
    """

    def __init__(self, format: Format, path: Path, name: str) -> None:
        self._format, self._path, self._name = format, path, name.lower()
        self._schema: pa.Schema | None = None
        self._writer: TableWriter | None = None

    def write(self, table: pa.Table) -> None:
        """Add a table; the types are those of the first one."""
        if self._writer is None or self._schema is None:
            assert self._format.create is not None  # formats that cannot are refused by their names
            self._schema = table.schema
            self._writer = self._format.create(self._path, table.schema, self._name)
        self._writer.write_table(table.select(self._schema.names).cast(self._schema))

    @property
    def is_empty(self) -> bool:
        """Whether no table was written."""
        return self._writer is None

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()


def write_table(path: AnyPath, table: pa.Table) -> None:
    """Write a table as Parquet."""
    import pyarrow.parquet as pq

    with replacing(path) as temporary:
        pq.write_table(table, temporary)


def write_json(path: AnyPath, values: Any) -> None:
    """Write values as indented JSON."""
    write_atomically(path, (json.dumps(values, indent=2, default=_as_json) + "\n").encode())


def _as_json(value: Any) -> Any:
    """Arrays as lists, NumPy's numbers as Python's, everything else as text."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return str(value)
