"""Labels of nodes back on the coordinates of the labeled arrays that they come from."""

import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from probi._files import AnyPath, write_atomically
from probi._types import Array, Integers
from probi.inputs.fields import NO_LABEL, Field, earth_coordinate
from probi.io.formats.labeled import LabeledFile
from probi.io.reader import Reader
from probi.io.transform import Transform
from probi.solver.result import Result


class GridLabels(NamedTuple):
    """Labels of nodes on their dimensions, and the Dataset in which they are."""

    field: Field
    dataset: Any  # label, distance and centers, of each number of clusters

    def write(self, path: AnyPath) -> str | None:
        """Write labels.nc. Returns why nothing was written, if so."""
        if find_spec("h5netcdf") is None:
            return "h5netcdf, which writes it, is not installed"
        with tempfile.TemporaryDirectory() as folder:  # HDF5 locks what it writes, and so does write_atomically
            written = Path(folder) / path.name
            self.dataset.to_netcdf(written, engine="h5netcdf")
            write_atomically(path, written.read_bytes())
        return None

    def map(self, n_clusters: int) -> tuple[Array, Array, Array] | None:
        """Longitudes, latitudes and labels (latitude, longitude), if the nodes are such a grid that can be drawn."""
        axes = [earth_coordinate(self.field.dataset, kind) for kind in ("latitude", "longitude")]
        dims = tuple(axis.dims[0] for axis in axes if axis is not None and axis.ndim == 1)
        if len(set(dims)) < 2 or set(dims) != set(self.field.roles.node):
            return None
        latitude, longitude = (np.asarray(axis, np.float64) for axis in axes)
        if not all(_is_sorted(values) for values in (latitude, longitude)):
            return None
        name = next(each for each in (f"label_{n_clusters}", "label") if each in self.dataset)
        return longitude, latitude, self.dataset[name].transpose(*dims).to_numpy()


def grid_labels(reader: Reader, assignment: AnyPath, results: Sequence[Result], space: Transform) -> GridLabels | None:
    """Labels, distances and centers on the coordinates of the nodes of one file of labeled arrays.

    Labels are those of a file of assignments. None if a dimension has several levels, which NetCDF does not hold.
    """
    import pyarrow.parquet as pq
    import xarray as xr

    opened = reader.opened(0)
    assert isinstance(opened, LabeledFile)
    field = opened.field
    if any(values.dtype.names for values in field.coordinates.values()):
        return None
    with assignment.open("rb") as file:
        table = pq.read_table(file)
    where = _positions(table, field)
    dataset = xr.Dataset(coords=field.coords_without_realizations)
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
    return GridLabels(field, dataset)


def _is_sorted(values: Array) -> bool:
    steps = np.diff(values)
    return bool((steps > 0).all() or (steps < 0).all())  # also False with NaN


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
