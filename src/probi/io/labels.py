"""Labels of nodes back on the coordinates of the labeled arrays that they come from."""

import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from probi._stores import AnyPath
from probi._system import write_atomically
from probi._types import Array, Integers
from probi.inputs.fields import Field
from probi.io.formats.labeled import LabeledFile
from probi.io.reader import Reader
from probi.io.transform import Transform
from probi.solver.result import Result

NO_LABEL = -1  # in the file, of a node without a realization


def write_labels(
    path: AnyPath, reader: Reader, assignment: AnyPath, results: Sequence[Result], space: Transform
) -> str | None:
    """Write labels.nc: label, distance and centers, on the coordinates of the nodes, of one file of labeled arrays.

    Labels are those of a file of assignments. Returns why nothing was written, if so.
    """
    import pyarrow.parquet as pq
    import xarray as xr

    opened = reader.opened(0)
    assert isinstance(opened, LabeledFile)
    field = opened.field
    if any(values.dtype.names for values in field.coordinates.values()):  # several levels along one dimension
        return "a dimension of the nodes has several levels, which NetCDF does not hold"
    if find_spec("h5netcdf") is None:
        return "h5netcdf, which writes it, is not installed"
    with assignment.open("rb") as file:
        table = pq.read_table(file)
    where = _positions(table, field)
    gone = [name for name in field.roles.realization if name in field.dataset.dims]
    dataset = xr.Dataset(coords=field.dataset.drop_dims(gone).coords)
    for result in results:
        suffix = f"_{len(result.centers)}" if len(results) > 1 else ""
        about = {"long_name": "cluster with the smallest expected distance", "_FillValue": np.int32(NO_LABEL)}
        labels = _on_grid(field, where, table[f"cluster{suffix}"], np.int32, NO_LABEL)
        dataset[f"label{suffix}"] = (field.roles.node, labels, about)
        distances = _on_grid(field, where, table[f"expected_distance{suffix}"], np.float64, np.nan)
        about = {"long_name": "expected distance to the center of the cluster"}
        dataset[f"distance{suffix}"] = (field.roles.node, distances, about)
        for name, (dims, values) in field.unstack(space.inverse(result.centers)).items():
            known = {key: field.dataset[name].attrs[key] for key in ("units",) if key in field.dataset[name].attrs}
            dataset[f"{name}_center{suffix}"] = ((f"cluster{suffix}", *dims), values, known)
    with tempfile.TemporaryDirectory() as folder:  # HDF5 locks what it writes, and so does write_atomically
        written = Path(folder) / path.name
        dataset.to_netcdf(written, engine="h5netcdf")
        write_atomically(path, written.read_bytes())
    return None


def _positions(table: pa.Table, field: Field) -> Integers:
    """Position of each row of a table in C order of the dimensions of the nodes."""
    import pyarrow.compute as pc

    places = []
    for name in field.roles.node:
        column = next(table[each] for each in (f"{name}_", name) if each in table.column_names)
        coordinate = pa.array(field.coordinates[name]).cast(column.type, safe=False)
        places.append(pc.index_in(column, value_set=coordinate).to_numpy())
    positions: Integers = np.ravel_multi_index(tuple(places), field.shape)
    return positions


def _on_grid(field: Field, where: Integers, column: pa.ChunkedArray, dtype: Any, missing: Any) -> Array:
    out = np.full(field.n_nodes, missing, dtype)
    out[where] = column.to_numpy()
    return out.reshape(field.shape)
