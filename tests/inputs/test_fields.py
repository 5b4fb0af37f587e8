"""Labeled arrays as nodes: conventions of the field, roles of dimensions, missing members, blocks, messages."""

import importlib.util
import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import probi
from probi import InputError, InputWarning, Nodes
from probi.inputs import fields
from probi.inputs.fields import Field

xr = pytest.importorskip("xarray")

LATITUDES, LONGITUDES = np.array([53.0, 52.0, 51.0, 50.0]), np.arange(5.0, 11.0)
PLACES = ("latitude", "longitude")


def forecast(dim="number", steps=0, seed=0, attrs=None, **kwargs):
    """Three members of a temperature over four latitudes and six longitudes; no steps: without that dimension."""
    shape = (3, *([steps] if steps else []), 4, 6)
    dims = (dim, *(["step"] if steps else []), *PLACES)
    values = 280.0 + np.random.default_rng(seed).normal(size=shape)
    coords = {dim: (dim, np.arange(3), attrs or {}), "latitude": LATITUDES, "longitude": LONGITUDES}
    return xr.DataArray(values, coords, dims, name="t2m", attrs={"units": "K"}, **kwargs)


def expected(values):
    """Nodes of an array (members, latitudes, longitudes)."""
    return Nodes.from_dense(np.asarray(values).transpose(1, 2, 0).reshape(24, 3, 1))


# -- files of each convention, read with no argument but node ---------------------------------------------------------


def netcdf(array, path):
    array.to_netcdf(path / "ens.nc", engine="h5netcdf")
    return xr.open_dataset(path / "ens.nc", engine="h5netcdf")


def by_cfgrib_as_netcdf(path):
    # What `cfgrib to_netcdf` writes: the member is called number, and its attributes say what it is.
    about = {"long_name": "ensemble member numerical id", "units": "1", "standard_name": "realization"}
    array = forecast(attrs=about).assign_coords(time=np.datetime64("2024-01-01", "ns"), surface=0.0)
    return netcdf(array, path), array


def by_cf(path):
    array = forecast("realization", attrs={"standard_name": "realization", "units": "1"})
    return netcdf(array, path), array


def by_member(path):
    array = forecast("member").drop_vars("member")
    return netcdf(array, path), array


def by_standard_name_of_another_name(path):
    # The dimension has a name that says nothing, and another one a name that would be taken.
    array = forecast("run", attrs={"standard_name": "realization"}).expand_dims(sample=1)
    array = array.rename(run="ensemble")
    return netcdf(array, path), array.isel(sample=0)


def by_chain_and_draw(path):
    array = forecast().drop_vars("number")
    values = array.to_numpy().reshape(1, 3, 4, 6)
    chains = xr.DataArray(values, array.drop_vars("number", errors="ignore").coords, ("chain", "draw", *PLACES), "t2m")
    return netcdf(chains, path), array


def by_dask(path):
    array = forecast()
    netcdf(array, path).close()
    return xr.open_dataset(path / "ens.nc", engine="h5netcdf", chunks={"latitude": 2, "number": 1}), array


def by_zarr(path):
    pytest.importorskip("zarr")
    array = forecast()
    array.to_zarr(path / "ens.zarr", encoding={"t2m": {"chunks": (1, 4, 6)}}, consolidated=False)
    return xr.open_zarr(path / "ens.zarr", consolidated=False, chunks=None), array


def by_cftime(path):
    cftime = pytest.importorskip("cftime")
    array = forecast()
    times = [cftime.DatetimeNoLeap(2000, 1, day) for day in range(1, 5)]
    daily = array.rename(latitude="time").assign_coords(time=times)
    dataset = xr.open_dataset(
        netcdf(daily, path).close() or path / "ens.nc",
        engine="h5netcdf",
        decode_times=xr.coders.CFDatetimeCoder(use_cftime=True),
    )
    return dataset, array


def with_a_scalar_coordinate(path):
    array = forecast("realization").assign_coords(number=7, height=2.0)
    return netcdf(array, path), array


CONVENTIONS = [
    by_cfgrib_as_netcdf, by_cf, by_member, by_standard_name_of_another_name, by_chain_and_draw, by_dask, by_zarr,
    by_cftime, with_a_scalar_coordinate,
]  # fmt: skip


@pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda convention: convention.__name__)
def test_conventions_need_no_argument_but_node(convention, tmp_path):
    dataset, array = convention(tmp_path)
    node = ("time", "longitude") if convention is by_cftime else PLACES
    if convention is by_standard_name_of_another_name:
        dataset = dataset.isel(sample=0)
    with dataset:
        nodes = Nodes.from_xarray(dataset, node=node)
    wanted = expected(array)
    assert_allclose(nodes.points, wanted.points, atol=1e-4)
    assert_array_equal(nodes.offsets, wanted.offsets)
    assert nodes.ids.dtype.names == node
    assert_array_equal(nodes.ids["longitude"], np.tile(LONGITUDES, 4))
    if convention is by_cftime:
        assert nodes.ids["time"][6] == "2000-01-02T00:00:00"


# In a process of its own: the PROJ that comes with eccodes takes the place of that of pyproj, which geopandas needs.
GRIB = """
import sys
import eccodes, numpy as np, xarray as xr
from probi import Nodes

folder = sys.argv[1]
values = np.load(folder + "/values.npy")
grid = {
    "Ni": 6, "Nj": 4, "latitudeOfFirstGridPointInDegrees": 53.0, "latitudeOfLastGridPointInDegrees": 50.0,
    "longitudeOfFirstGridPointInDegrees": 5.0, "longitudeOfLastGridPointInDegrees": 10.0,
    "iDirectionIncrementInDegrees": 1.0, "jDirectionIncrementInDegrees": 1.0,
}
with open(folder + "/ens.grib", "wb") as file:
    for number, field in enumerate(values):
        message = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
        ensemble = {"productDefinitionTemplateNumber": 1, "perturbationNumber": number, "stepRange": "6"}
        for key, value in {**ensemble, **grid, "shortName": "2t", "bitsPerValue": 24}.items():
            eccodes.codes_set(message, key, value)
        eccodes.codes_set_values(message, field.ravel())
        eccodes.codes_write(message, file)
        eccodes.codes_release(message)
with xr.open_dataset(folder + "/ens.grib", engine="cfgrib", backend_kwargs={"indexpath": ""}) as dataset:
    nodes = Nodes.from_xarray(dataset, node=("latitude", "longitude"))
np.savez(folder + "/nodes.npz", points=nodes.points, offsets=nodes.offsets, ids=nodes.ids)
"""


@pytest.mark.process
def test_grib_needs_no_argument_but_node(tmp_path):
    for name in ("eccodes", "cfgrib"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"no {name}")
    array = forecast()
    np.save(tmp_path / "values.npy", array.to_numpy())
    subprocess.run([sys.executable, "-c", GRIB, str(tmp_path)], check=True, capture_output=True, text=True)
    found, wanted = np.load(tmp_path / "nodes.npz"), expected(array)
    assert_allclose(found["points"], wanted.points, atol=1e-4)
    assert_array_equal(found["offsets"], wanted.offsets)
    assert_array_equal(found["ids"]["longitude"], np.tile(LONGITUDES, 4))


def test_there_are_ten_conventions():
    assert len(CONVENTIONS) == 9  # and GRIB


def test_dates_are_ids():
    array = forecast().rename(latitude="time").assign_coords(time=np.arange("2000-01-01", "2000-01-05", dtype="M8[D]"))
    nodes = Nodes.from_xarray(array.isel(longitude=0), node="time")
    assert nodes.ids.dtype.kind == "M"
    assert nodes.ids[3] == np.datetime64("2000-01-04")


def test_the_standard_name_beats_a_name():
    array = forecast("run", attrs={"standard_name": "realization"}).rename(longitude="sample")
    assert Field(array, "latitude").roles.realization == ("run",)


# -- the definition ---------------------------------------------------------------------------------------------------


@st.composite
def arrays(draw):
    """An array of places and members with steps, in any order of dimensions, some members missing."""
    sizes = {"y": draw(st.integers(1, 3)), "x": draw(st.integers(1, 3)), "number": draw(st.integers(1, 4)), "step": 2}
    order = draw(st.permutations(list(sizes)))
    values = np.random.default_rng(draw(st.integers(0, 99))).normal(size=[sizes[name] for name in order])
    array = xr.DataArray(values, dims=order)
    gone = draw(st.lists(st.tuples(*(st.integers(0, sizes[name] - 1) for name in ("y", "x", "number"))), max_size=5))
    for y, x, number in gone:
        array.loc[{"y": y, "x": x, "number": number}] = np.nan
    return array


@given(arrays())
def test_nodes_are_those_of_the_definition(array):
    points, probabilities, offsets = [], [], [0]
    for y in range(array.sizes["y"]):
        for x in range(array.sizes["x"]):
            for number in range(array.sizes["number"]):
                point = [float(array.isel(y=y, x=x, number=number, step=step)) for step in range(2)]
                if not all(map(math.isnan, point)):
                    points.append(point)
                    probabilities.append(1 / array.sizes["number"])
            if len(points) > offsets[-1]:
                offsets.append(len(points))
    if not points:
        with pytest.raises(InputError, match="All values are NaN"):
            Nodes.from_xarray(array, node=("y", "x"))
        return
    nodes = Nodes.from_xarray(array, node=("y", "x"))
    assert_array_equal(nodes.points, points)
    assert_allclose(nodes.probabilities, probabilities)
    assert_array_equal(nodes.offsets, offsets)
    assert nodes.ids is None


def test_members_may_be_the_nodes():
    array = forecast(steps=2)
    nodes = Nodes.from_xarray(array, node="number")
    assert nodes.is_certain
    assert nodes.shape == (3, 48)
    assert_array_equal(nodes.points, array.to_numpy().reshape(3, 48))
    assert_array_equal(nodes.ids, [0, 1, 2])


def test_members_of_several_runs():
    # Runs are the nodes, members their realizations.
    runs = xr.concat([forecast(seed=seed) for seed in range(2)], "time")
    assert Nodes.from_xarray(runs, node="time").shape == (2, 24)
    # Members are the nodes: nothing else looks like realizations, so times are features.
    assert Nodes.from_xarray(runs, node="number").shape == (3, 48)


def test_variables_are_features():
    first, second = forecast(steps=2), forecast(seed=1).rename("pressure").assign_attrs(units="hPa")
    dataset = xr.merge([first, second, forecast(seed=2).isel(number=0, drop=True).rename("height")], join="outer")
    nodes = Nodes.from_xarray(dataset, node=PLACES, scale={"pressure": 10.0})
    assert nodes.n_features == 4
    assert_allclose(nodes.points[:, 2], expected(second).points[:, 0] / 10.0)
    # What has no members is the same for all of them.
    assert_array_equal(nodes.points[:3, 3], np.repeat(dataset["height"].to_numpy()[0, 0], 3))
    assert_array_equal(Nodes.from_xarray(dataset, PLACES, features="t2m").points, nodes.points[:, :2])


def test_bounds_and_grid_mappings_are_no_features():
    dataset = forecast().to_dataset()
    dataset["latitude"].attrs["bounds"] = "latitude_bnds"
    dataset["latitude_bnds"] = (("latitude", "bnds"), np.zeros((4, 2)))
    dataset["t2m"].attrs["grid_mapping"] = "crs"
    dataset["crs"] = 0
    assert Nodes.from_xarray(dataset, PLACES).n_features == 1  # and no warning


def test_float32_stays():
    assert Nodes.from_xarray(forecast().astype(np.float32), PLACES).dtype == np.float32
    assert Nodes.from_xarray(forecast().astype(np.int16), PLACES).dtype == np.float64


def test_levels_of_a_stacked_dimension_are_fields_of_the_ids():
    stacked = forecast().stack(place=PLACES)
    nodes = Nodes.from_xarray(stacked, "place")
    assert nodes.ids.dtype.names == PLACES
    assert nodes == Nodes.from_xarray(forecast(), PLACES)


# -- missing values ---------------------------------------------------------------------------------------------------


def test_missing_members_lower_the_probability_and_empty_nodes_are_left_out():
    array = forecast(steps=2)
    array[0, :, 1, 2] = np.nan
    array[:, :, 3, 3] = np.nan
    nodes = Nodes.from_xarray(array, PLACES)
    assert len(nodes) == 23
    assert_allclose(nodes.total_probabilities[8], 2 / 3)
    assert (51.0, 8.0) in nodes.ids.tolist()
    assert (50.0, 8.0) not in nodes.ids.tolist()


def test_features_that_are_missing_everywhere_are_left_out():
    # Land in a field of the sea, with members as nodes.
    array = forecast()
    array[:, 1:3, 2] = np.nan
    field = Field(array, "number")
    nodes = Nodes(*next(field.blocks()).arrays)
    assert nodes.shape == (3, 22)
    dims, centers = field.unstack(nodes.points)["t2m"]
    assert dims == PLACES
    assert_array_equal(centers, array)


def test_partly_missing_realizations():
    array = forecast(steps=2)
    array[1, 0, 2, 3] = np.nan
    with pytest.raises(InputError, match=r"Realization 1 of node latitude=51.0, longitude=8.0 .* missing='absent'"):
        Nodes.from_xarray(array, PLACES)
    assert_allclose(Nodes.from_xarray(array, PLACES, missing="absent").total_probabilities[15], 2 / 3)


def test_a_feature_that_only_the_first_nodes_lack(monkeypatch):
    monkeypatch.setattr(fields, "BLOCK_BYTES", 96 * 6)
    array = forecast(steps=2)
    array[:, 0, :2] = np.nan
    for in_order in (True, False):
        with pytest.raises(InputError, match="A feature of 't2m' is NaN for the first nodes"):
            list(Field(array, PLACES).blocks(in_order))


# -- weights and scales -----------------------------------------------------------------------------------------------


def test_weights_by_latitude():
    nodes = Nodes.from_xarray(forecast(), PLACES, weights="cos_latitude")
    assert_allclose(nodes.weights, np.repeat(np.cos(np.radians(LATITUDES)), 6))
    # Where latitude is a feature, a squared distance is a sum weighted by area.
    array = forecast()
    members = Nodes.from_xarray(array, "number", weights="cos_latitude")
    area = np.cos(np.radians(array.latitude))
    wanted = float(np.sqrt((((array[0] - array[1]) ** 2) * area).sum()))
    assert_allclose(np.linalg.norm(members.points[0] - members.points[1]), wanted)


def test_weights_by_an_array_and_at_a_pole():
    array = forecast()
    given = xr.DataArray(np.arange(24.0).reshape(6, 4), dims=PLACES[::-1])
    assert_array_equal(Nodes.from_xarray(array, PLACES, weights=given).weights, given.to_numpy().T.ravel())
    poles = array.assign_coords(latitude=np.array([90, 30, -30, -90], np.float32))
    assert Nodes.from_xarray(poles, PLACES, weights="cos_latitude").weights.min() >= 0.0
    field = Field(poles, "number", weights="cos_latitude")
    centers = field.unstack(next(field.blocks()).points)["t2m"][1]
    assert_allclose(centers, array)


# -- blocks -----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=3),
    st.integers(1, 1 << 10),
    st.integers(0, 12),
)
def test_blocks_cover_all_end_at_chunks_and_have_bounded_size(dims, per_node, scale):
    shape, chunks = [size for size, _ in dims], [chunk for _, chunk in dims]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fields, "BLOCK_BYTES", 16 << scale)
        patch.setattr(fields, "MAX_BLOCK_BYTES", 64 << scale)
        patch.setattr(fields._notes, "warn", lambda *args: None)
        edges = fields._edges(shape, chunks, per_node)
    for size, dim in zip(shape, edges, strict=True):
        assert dim[0] == 0
        assert dim[-1] == size
        assert dim == sorted(set(dim))
    largest = math.prod(max(b - a for a, b in itertools.pairwise(dim)) for dim in edges) * per_node
    assert largest <= max(64 << scale, per_node)
    one_chunk = per_node * math.prod(map(min, chunks, shape))
    if one_chunk <= 64 << scale:
        for chunk, dim in zip(chunks, edges, strict=True):
            assert all(border % chunk == 0 for border in dim[:-1])


@pytest.mark.parametrize(
    ("chunks", "n_blocks"),
    [({"latitude": 2, "longitude": 4}, 4), ({"number": 1}, 1), ({"latitude": 1, "number": 2, "longitude": 3}, 8)],
)
def test_chunks_change_nothing_but_the_order(chunks, n_blocks, monkeypatch):
    monkeypatch.setattr(fields, "BLOCK_BYTES", 3 * 2 * 8)  # one node
    array = forecast(steps=2)
    whole = Nodes.from_xarray(array, PLACES)
    field = Field(array.chunk(chunks), PLACES)
    blocks = list(field.blocks())
    assert len(blocks) == n_blocks
    nodes = Nodes.concat([Nodes(*block.arrays) for block in blocks])
    order = np.lexsort([nodes.ids["longitude"], -nodes.ids["latitude"]])
    assert nodes.take(order) == whole
    assert Nodes.from_xarray(array.chunk(chunks), PLACES) == whole


def test_chunks_that_are_too_large_are_read_again_and_said_so(monkeypatch):
    monkeypatch.setattr(fields, "BLOCK_BYTES", 100)
    monkeypatch.setattr(fields, "MAX_BLOCK_BYTES", 200)
    field = Field(forecast().chunk(number=1), PLACES)
    with pytest.warns(InputWarning, match="each chunk is read 4 times"):
        assert len(field.boxes()) == 4


# -- messages ---------------------------------------------------------------------------------------------------------

TWO = forecast().expand_dims(member=2)
WORDS = forecast().astype(str)
STATIONS = forecast().isel(longitude=0).assign_coords(latitude=[1, 2, 2, 3])
CURVED = forecast().rename(latitude="y", longitude="x").drop_vars(["y", "x"])
CURVED = CURVED.assign_coords(latitude=(("y", "x"), np.zeros((4, 6))))
UNITS = xr.merge([forecast(), forecast().rename("u10").assign_attrs(units="m s-1")], join="outer", compat="override")

MESSAGES = [
    (forecast(), {"node": "latitudes"}, "There is no dimension 'latitudes'; there are number (3), latitude (4), "
     "longitude (6). Write node='latitude'?"),
    (forecast(), {"node": ("latitudes", "longitude")}, "Write node=('latitude', 'longitude')?"),
    (forecast(), {"node": PLACES, "realization": "members"}, "There is no dimension 'members'; there are number (3)"),
    (CURVED, {"node": "latitude"}, "'latitude' is a coordinate along 'y', 'x', not a dimension: write node=('y'"),
    (forecast(), {"node": ()}, "node is empty: name the dimensions that tell nodes apart, among number (3)"),
    (forecast(), {"node": 3}, "node must be a name or several names, got 3."),
    (forecast(), {"node": ("latitude", "latitude")}, "node has a name twice: latitude, latitude."),
    (forecast(), {"node": "number", "realization": "number"}, "Dimension 'number' cannot be both node and realization"),
    (TWO, {"node": PLACES}, "Several dimensions may hold the realizations: 'number', 'member'. Write "
     "realization='number', or realization=('number', 'member') if all of them do."),
    (forecast("run"), {"node": PLACES}, "Cannot tell which dimension holds the realizations; beside node there are "
     "run (3). Write realization='run', for example, or realization=False if values are certain."),
    (forecast().isel(number=0), {"node": PLACES}, "none holds realizations: write realization=False."),
    (forecast()[:0], {"node": PLACES}, "Dimension 'number' has size 0, so there are no members: select at least one."),
    (forecast()[:, :0], {"node": PLACES}, "Dimension 'latitude' has size 0, so there are no nodes"),
    (forecast(steps=2)[:, :0], {"node": PLACES}, "Variable 't2m' has no features"),
    (UNITS, {"node": PLACES}, "Features have different units: t2m (K), u10 (m s-1). Write scale={'t2m': ..., 'u10': "
     "...} with the difference in each that counts as much as those in the others, or select features of one unit."),
    (UNITS, {"node": PLACES, "scale": {"x": 1.0}}, "scale must give a number for features by name, among 't2m', 'u10'"),
    (UNITS, {"node": PLACES, "scale": {"t2m": 0.0}}, "Scales must be positive numbers."),
    (WORDS, {"node": PLACES}, "Variable 't2m' is of dtype <U"),
    (WORDS.to_dataset(), {"node": PLACES, "features": "t2m"}, "Variable 't2m' has dtype <U"),
    (forecast(), {"node": PLACES, "features": "longitude"}, "'longitude' is a dimension: all dimensions beside node"),
    (forecast(), {"node": PLACES, "features": "tp"}, "There is no variable 'tp'; there are 't2m'."),
    (forecast(), {"node": PLACES, "features": ()}, "features is empty: name variables, among t2m."),
    (UNITS.mean("latitude"), {"node": "longitude", "weights": "cos_latitude", "features": "t2m"},
     "weights='cos_latitude' needs a coordinate called latitude or lat"),
    (forecast(), {"node": "latitude", "weights": forecast()}, "weights must be a DataArray along 'latitude'"),
    (forecast(), {"node": PLACES, "weights": "area"}, "weights is 'area', but must be one of cos_latitude."),
    (STATIONS, {"node": "latitude"}, "Coordinate 'latitude' has 2 more than once, so nodes would share an id. Write "
     "obj.drop_duplicates('latitude'), or obj.drop_vars('latitude') to number the nodes."),
    (xr.Dataset({"a": ("x", [1.0])}).expand_dims(y=2)[["a"]].isel(y=0), {"node": "x", "realization": "x"}, "both node"),
    (forecast(), {"node": None}, "node must be a name or several names, got None."),
    (xr.DataTree(forecast().to_dataset()), {"node": PLACES}, "obj is a DataTree: give one of its groups, such as "
     "obj['/'].to_dataset()."),
    (np.zeros((3, 4)), {"node": "x"}, "obj must be a DataArray or a Dataset of xarray, not ndarray."),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "arguments", "message"), MESSAGES, ids=range(len(MESSAGES)))
def test_one_sentence_says_what_to_write(obj, arguments, message):
    with pytest.raises(InputError) as caught:
        Nodes.from_xarray(obj, **arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_suggested_works():
    assert Nodes.from_xarray(STATIONS.drop_vars("latitude"), "latitude").ids is None
    assert len(Nodes.from_xarray(STATIONS.drop_duplicates("latitude"), "latitude")) == 3
    assert Nodes.from_xarray(TWO, PLACES, realization=("member", "number")).n_realizations == 24 * 6
    assert Nodes.from_xarray(forecast("run"), PLACES, realization=False).shape == (24, 3)
    assert Nodes.from_xarray(UNITS, PLACES, scale={"t2m": 1.0, "u10": 2.0}).n_features == 2


def test_coordinates_that_are_not_sorted_are_said():
    array = forecast().isel(latitude=[1, 0, 2, 3])
    with pytest.warns(InputWarning, match=r"Coordinate 'latitude' is not sorted.*obj.sortby\('latitude'\)"):
        nodes = Nodes.from_xarray(array, PLACES)
    assert_array_equal(nodes.ids["latitude"][::6], [52, 53, 51, 50])


def test_variables_that_are_left_out_are_said():
    dataset = forecast().to_dataset().assign(name=(PLACES, np.full((4, 6), "a")), total=3.0)
    with pytest.warns(InputWarning, match=r"Left out 'name', 'total'.*Write features='t2m' to silence"):
        assert probi.Nodes.from_xarray(dataset, PLACES).n_features == 1
    with pytest.raises(InputError, match="No variable has all dimensions"):
        Nodes.from_xarray(dataset.drop_vars(["t2m", "name"]).expand_dims(x=2), PLACES)
