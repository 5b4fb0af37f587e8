"""NetCDF, Zarr and GRIB are read like tables: the nodes of Nodes.from_xarray, and labels back on their coordinates."""

import functools
import gc
import importlib.util
import json

import h5netcdf
import numpy as np
import pytest
import xarray as xr
from commands import error_line
from commands import probi as run
from samples import forking, in_child
from table_files import batches_of, joined

import probi as pb
from probi.errors import InputError
from probi.objective import two_nearest


def ensemble(n_members=5, with_steps=True, holes=True):
    """Temperatures of a small grid: two climates, some members and places missing."""
    rng = np.random.default_rng(0)
    latitude, longitude = np.linspace(60.0, 40.0, 6), np.arange(0.0, 8.0)
    climate = np.where(np.arange(6) < 3, 270.0, 290.0)[None, None, :, None]
    steps = {"step": np.array([6, 12, 18], "timedelta64[h]").astype("timedelta64[ns]")} if with_steps else {}
    values = climate + rng.normal(size=(n_members, 3 if with_steps else 1, 6, 8))
    if holes:
        values[2, :, 1, 3] = np.nan  # a member
        values[:, :, 4, 5] = np.nan  # a place
    dims = ("number", "step", "latitude", "longitude")
    array = xr.DataArray(
        values if with_steps else values[:, 0],
        {"number": np.arange(n_members), **steps, "latitude": latitude, "longitude": longitude},
        dims if with_steps else ("number", "latitude", "longitude"),
        name="t2m",
        attrs={"units": "K"},
    )
    return array.to_dataset()


def save(dataset, path):
    if path.suffix == ".zarr":
        dataset.chunk({"latitude": 2, "longitude": 4}).to_zarr(path, consolidated=False)
    else:
        dataset.to_netcdf(path, engine="h5netcdf")
    return path


def by_id(nodes):
    order = np.argsort(nodes.ids, order=nodes.ids.dtype.names)
    return nodes.take(order)


GRID = ("latitude", "longitude")


@pytest.mark.parametrize("ending", ["nc", "zarr"])
def test_the_nodes_are_those_of_from_xarray(tmp_path, ending):
    dataset = ensemble()
    path = save(dataset, tmp_path / f"x.{ending}")
    expected = by_id(pb.Nodes.from_xarray(dataset, node=GRID))
    reader = pb.io.read(path, node=GRID)
    assert reader.space.features == ("t2m[step=6h]", "t2m[step=12h]", "t2m[step=18h]")
    found = by_id(pb.Nodes.concat(list(reader)))
    assert found == expected
    assert found.ids.dtype.names == GRID
    assert len(found) == 47
    weighted = pb.Nodes.concat(list(pb.io.read(path, node=GRID, weight="cos_latitude")))
    assert by_id(weighted) == by_id(pb.Nodes.from_xarray(dataset, node=GRID, weights="cos_latitude"))


@pytest.mark.slow
def test_any_chunks_give_the_same_nodes_and_reading_resumes_anywhere(tmp_path, monkeypatch):
    from probi.inputs import fields
    from probi.io.formats import base

    dataset = ensemble()
    dataset.t2m[:, :, 0, 1] = np.nan  # a place in the first chunk
    path = save(dataset, tmp_path / "x.zarr")
    monkeypatch.setattr(fields, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(base, "MIN_ROWS", 3)
    monkeypatch.setattr(base, "MAX_ROWS", 3)
    reader = pb.io.read(path, node=GRID)
    batches = list(reader.batches())
    assert len(batches) > 6
    assert np.concatenate([batch.where for batch in batches]).tolist() == list(range(46))
    nodes = joined(batches)
    for i, batch in enumerate(batches[:-1]):
        rest = joined(list(pb.io.read(path, node=GRID).batches(batch.position, batch.counts)))
        assert rest == nodes[sum(len(each.nodes) for each in batches[: i + 1]) :]


def test_features_of_a_zarr_folder_are_in_order_of_their_names(tmp_path):
    one = ensemble()
    path = save(one.assign(wind=one.t2m, aerosol=one.t2m), tmp_path / "x.zarr")
    names = pb.io.read(path, node=GRID).opened(0).feature_names
    assert list(dict.fromkeys(name.split("[")[0] for name in names)) == ["aerosol", "t2m", "wind"]


@pytest.mark.slow
@forking
def test_grib(tmp_path):
    for name in ("eccodes", "cfgrib"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"no {name}")
    # In a child: the PROJ that comes with eccodes takes the place of that of pyproj, which geopandas needs.
    n, n_nodes, n_realizations, same, names = in_child(functools.partial(read_grib, tmp_path))
    assert (n_nodes, n_realizations) == (n, 3 * n)
    assert same
    assert names == ["x.grib"]  # no index beside it


def read_grib(folder):
    """Write a forecast of three members; points, nodes and realizations, whether xarray gives the same, files."""
    import eccodes

    with (folder / "x.grib").open("wb") as file:
        for number in range(3):
            message = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
            keys = {"typeOfProcessedData": "pf", "productDefinitionTemplateNumber": 1, "perturbationNumber": number}
            for key, value in (keys | {"numberOfForecastsInEnsemble": 3}).items():
                eccodes.codes_set(message, key, value)
            n = eccodes.codes_get(message, "Ni") * eccodes.codes_get(message, "Nj")
            eccodes.codes_set_values(message, np.random.default_rng(number).normal(280.0, 5.0, n))
            eccodes.codes_write(message, file)
            eccodes.codes_release(message)
    nodes = pb.Nodes.concat(list(pb.io.read(folder / "x.grib", node=GRID)))
    names = [path.name for path in folder.iterdir()]
    dataset = xr.open_dataset(folder / "x.grib", engine="cfgrib", indexpath="")
    same = by_id(nodes) == by_id(pb.Nodes.from_xarray(dataset, node=GRID))
    return n, len(nodes), nodes.n_realizations, same, names


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["nc", "zarr"])
def test_the_command_writes_labels(tmp_path, capsys, ending):
    path = save(ensemble(), tmp_path / f"x.{ending}")
    ran = run(capsys, "cluster", path, "--node", "latitude,longitude", "-k", "2", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    with xr.open_dataset(tmp_path / "out" / "labels.nc", engine="h5netcdf") as labels:
        labels = labels.load()
    assert labels.label.dims == GRID
    assert labels.label.isnull().values.nonzero()[0].tolist() == [4]
    assert np.isnan(labels.label.values[4, 5])
    here = labels.label.values
    assert len(set(here[:3].ravel())) == 1
    assert len(set(here[3:][~np.isnan(here[3:])])) == 1
    assert here[0, 0] != here[5, 0]
    centers = labels.t2m_center
    assert centers.dims == ("cluster", "step")
    assert centers.attrs["units"] == "K"
    assert sorted(np.round(centers.mean("step").values, -1)) == [270.0, 290.0]
    expected = pb.Nodes.from_xarray(ensemble(), node=GRID)
    nearest = two_nearest(expected, np.asarray(centers))
    distances = labels.distance.values.ravel()
    np.testing.assert_allclose(distances[~np.isnan(distances)], nearest.distances, rtol=1e-6)
    assert (here.ravel()[~np.isnan(distances)] == nearest.labels).all()
    assert "Map of 2 clusters" in (tmp_path / "out" / "report.html").read_text()
    # Its results say how files are read.
    ran = run(capsys, "assign", path, "--centers", tmp_path / "out", "-o", tmp_path / "a.csv")
    assert ran.code == 0, ran.err
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 48
    wrong = run(capsys, "assign", path, "--centers", tmp_path / "out", "--node", "number", "-o", tmp_path / "b.csv")
    assert "--node is number, but the run in" in wrong.err


@pytest.mark.slow
def test_outliers_and_missing_places_differ_in_labels(tmp_path, capsys):
    dataset = ensemble()
    dataset.t2m[:, :, 2, 2] += 500.0
    path = save(dataset, tmp_path / "x.nc")
    arguments = ["cluster", path, "--node", "latitude,longitude", "-k", "2:3", "--outliers", "0.03"]
    ran = run(capsys, *arguments, "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    with xr.open_dataset(tmp_path / "out" / "labels.nc", engine="h5netcdf") as labels:
        for k in (2, 3):
            values = labels[f"label_{k}"].values
            assert values[2, 2] == -1
            assert np.argwhere(np.isnan(values)).tolist() == [[4, 5]]
            assert set(values[np.isfinite(values)]) == set(range(-1, k))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.rename(latitude="y", longitude="x"),
        lambda ds: ds.isel(latitude=[1, 0, 2, 3, 4, 5]),
        lambda ds: ds.drop_vars("longitude"),
    ],
)
def test_no_map_without_sorted_latitudes_and_longitudes(tmp_path, capsys, change):
    dataset = change(ensemble())
    path = save(dataset, tmp_path / "x.nc")
    node = ",".join(dataset.t2m.dims[-2:])
    ran = run(capsys, "cluster", path, "--node", node, "-k", "2", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "Map of" not in (tmp_path / "out" / "report.html").read_text()
    assert ran.err.count("is not sorted") == (dataset.sizes.get("latitude") == 6 and dataset.latitude[0] < 60)
    assert (tmp_path / "out" / "labels.nc").exists()


@pytest.mark.slow
def test_a_checkpoint_of_a_zarr_folder(tmp_path, capsys, monkeypatch):
    from probi.inputs import fields

    monkeypatch.setattr(fields, "BLOCK_BYTES", 1 << 10)
    path = save(ensemble(), tmp_path / "x.zarr")
    arguments = ["cluster", path, "--node", "latitude,longitude", "-k", "2", "--checkpoint-every", "5"]
    assert run(capsys, *arguments, "-o", tmp_path / "out").code == 0
    with monkeypatch.context() as patch:
        calls = iter(range(1000))
        patch.setattr("probi.cli.console.Interrupts.is_stopped", lambda self: next(calls) == 3)
        assert run(capsys, *arguments, "-o", tmp_path / "again", "--checkpoint", tmp_path / "run").code == 1
    ran = run(capsys, *arguments, "-o", tmp_path / "again", "--checkpoint", tmp_path / "run")
    assert "Resuming from" in ran.err
    for name in ("centers.csv", "assignment.parquet", "summary.probi", "labels.nc"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "say which dimensions tell nodes apart: --node, such as .*There are number"),
        ({"node": "lat"}, "There is no dimension 'lat'.*Write node='latitude'"),
        ({"node": ["step"], "realization": ["step"]}, "cannot be both node and realization"),
        ({"node": GRID, "features": ["rain"]}, "There is no variable 'rain'"),
        ({"node": GRID, "weight": "area"}, "--weight must be cos_latitude or none"),
        ({"node": GRID, "missing": "skip-row"}, "missing"),
    ],
)
def test_what_is_wrong_is_a_sentence(tmp_path, options, sentence):
    path = save(ensemble(), tmp_path / "x.nc")
    with pytest.raises(InputError, match=rf"x\.nc.*{sentence}"):
        pb.io.read(path, **options)


def test_units_that_differ_need_a_scale(tmp_path):
    dataset = ensemble(with_steps=False)
    dataset["tp"] = dataset.t2m * 1e-3
    dataset.tp.attrs["units"] = "m"
    path = save(dataset, tmp_path / "x.nc")
    with pytest.raises(InputError, match=r"different units: t2m \(K\), tp \(m\)\. Scale them \(--scale standard"):
        pb.io.read(path, node=GRID)
    assert pb.io.read(path, node=GRID, scale="standard").space.features == ("t2m", "tp")
    assert pb.io.read(path, node=GRID, features=["tp"]).space.features == ("tp",)


def test_other_files_have_no_dimensions(tmp_path, capsys):
    (tmp_path / "x.csv").write_text("x,y\n1,2\n")
    line = error_line(run(capsys, "info", tmp_path / "x.csv", "--node", "x"))
    assert line.endswith(f"are for NetCDF, Zarr and GRIB, but {tmp_path}/x.csv holds a table.")
    (tmp_path / "x.nc").write_bytes(b"CDF\x01 and nothing")
    assert "x.nc cannot be read as netcdf: " in error_line(run(capsys, "info", tmp_path / "x.nc", "--node", "x"))


def test_a_dimension_called_like_a_column(tmp_path):
    array = xr.DataArray(np.random.default_rng(0).normal(size=(3, 4)), dims=("member", "points"), name="weight")
    path = save(array.to_dataset(), tmp_path / "x.nc")
    (batch,) = batches_of(path, node=["points"])
    assert batch.nodes.ids.tolist() == [0, 1, 2, 3]
    assert (batch.nodes.points == pb.Nodes.from_xarray(array, node="points").points).all()


def unwritten(path, dims, **variables):
    """A small file of variables that hold no value: their dimensions and chunks."""
    if path.suffix == ".zarr":
        group = pytest.importorskip("zarr").open_group(path)
        for name, (of, chunks) in variables.items():
            shape = [dims[dim] for dim in of]
            group.create_array(name, shape=shape, chunks=chunks, dtype="f8", dimension_names=of)
    else:
        with h5netcdf.File(path, "w") as file:
            file.dimensions = dims
            for name, (of, chunks) in variables.items():
                file.create_variable(name, of, "f8", chunks=chunks)
    return path


DIMS = ("number", "latitude", "longitude")


@pytest.mark.parametrize(
    ("sizes", "chunks", "node", "sentence"),
    [
        ((2, 3, 10**8), (2, 3, 1000), "latitude", "a node claims 14.4 GB"),
        ((10**8, 3, 4), (1000, 3, 4), GRID, "a node claims 0.8 GB"),
        ((2, 10**8, 4), (2, 1000, 4), GRID, "dimension 'latitude' claims 0.8 GB"),
        ((2, 10**7, 4), (2, 10**7, 4), GRID, "a chunk of 't' claims 0.6 GB"),
        ((2, 10**6, 4), (1, 1, 1), GRID, "the number of chunks of 't' claims 65.5 GB"),
        ((2, 10**7, 10**7), (2, 1, 10**5), GRID, "the grid of nodes claims 195.3 GB"),
    ],
)
@pytest.mark.parametrize("ending", ["nc", "zarr"])
def test_a_small_file_cannot_claim_much(tmp_path, ending, sizes, chunks, node, sentence):
    path = unwritten(tmp_path / f"x.{ending}", dict(zip(DIMS, sizes, strict=True)), t=(DIMS, chunks))
    with pytest.raises(InputError, match=rf"x\.{ending}: {sentence} in [\d,]+ bytes. If it is right, write all values"):
        pb.io.read(path, node=node)


def test_chunks_that_are_longer_than_dimensions_claim_what_they_hold(tmp_path):
    sizes = {"number": 2, "latitude": 1000, "longitude": 4}
    path = unwritten(tmp_path / "x.zarr", sizes, t=(DIMS, (1000, 1, 1000)))
    with pytest.raises(InputError, match=r"x\.zarr: the number of chunks of 't' claims 8.0 GB in"):
        pb.io.read(path, node=GRID)


@pytest.mark.parametrize("ending", ["nc", "zarr"])
def test_a_coordinate_that_claims_much_is_not_read(tmp_path, ending):
    dims = {"number": 2, "latitude": 10**8, "z": 10**8}
    path = unwritten(tmp_path / f"x.{ending}", dims, t=(DIMS[:2], (2, 1000)), latitude=(("latitude",), (1000,)))
    with pytest.raises(InputError, match=rf"x\.{ending}: coordinate 'latitude' claims 1.6 GB"):
        pb.io.read(path, node="latitude")


def test_a_variable_longer_than_its_dimension(tmp_path):
    path = unwritten(tmp_path / "x.nc", {"number": 2, "id": 4}, t=(("number", "id"), (1, 4)))
    with h5netcdf.File(path, "a") as file:
        longer = file._h5file.create_dataset("u", (2, 10**8), "f8", chunks=(1, 1000))
        longer.dims[1].attach_scale(file._h5file["id"])
    with pytest.raises(InputError, match=r"x\.nc: it is damaged: variable 'u' has shape .*, but dimension 'id' has 4"):
        pb.io.read(path, node="id")


def test_pickled_objects_are_not_loaded(tmp_path):
    path = tmp_path / "x.zarr"
    xr.Dataset({"t": (("number", "id"), np.zeros((2, 4)))}, {"id": np.arange(4)}).to_zarr(path, zarr_format=2)
    about = json.loads((path / "id" / ".zarray").read_text())
    about |= {"dtype": "|O", "fill_value": "", "filters": [{"id": "vlen-utf8"}, {"id": "pickle"}], "compressor": None}
    (path / "id" / ".zarray").write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"x\.zarr: 'id' holds pickled objects, which probi does not load"):
        pb.io.read(path, node="id")


def test_several_damaged_arrays_are_one_sentence(tmp_path, caplog):
    path = tmp_path / "x.zarr"
    xr.Dataset({name: (("number", "id"), np.zeros((2, 4))) for name in "tuvw"}).to_zarr(path, zarr_format=2)
    for name in "tuv":
        (path / name / ".zarray").write_text("{")
    with pytest.raises(InputError, match=r"x\.zarr cannot be read as zarr: "):
        pb.io.read(path, node="id")
    gc.collect()  # which tells of exceptions that nobody has seen
    assert not caplog.records


def test_only_so_many_empty_blocks_are_skipped(tmp_path, monkeypatch):
    path = save(xr.Dataset({"t": (("number", "id"), np.full((2, 4000), np.nan))}), tmp_path / "x.nc")
    with pytest.raises(InputError, match=r"x\.nc: all values are NaN"):
        pb.io.read(path, node="id")
    monkeypatch.setattr("probi.inputs.fields.BLOCK_BYTES", 16)
    monkeypatch.setattr("probi.io.formats.labeled.MAX_EMPTY", 1)
    with pytest.raises(InputError, match=r"x\.nc: the first 0.0 GB of values are all NaN. Leave out such nodes."):
        pb.io.read(path, node="id")
