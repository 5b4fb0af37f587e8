"""The accessor of xarray: labels, distances, memberships and centers on the coordinates of the data; scenarios."""

import errno
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import probi
from probi import InputError, Nodes, validation
from probi.inputs import block_copy, fields

xr = pytest.importorskip("xarray")
import probi.xarray as accessor  # noqa: E402

PLACES = ("latitude", "longitude")


def ensemble(seed=0, n_members=7, n_steps=2, shape=(6, 8), dtype=np.float64):
    """Warm in the south, cold in the north, over some steps."""
    rng = np.random.default_rng(seed)
    means = np.where(np.arange(shape[0]) < shape[0] // 2, 5.0, 25.0)[:, None] + np.zeros(shape)
    values = (means + rng.normal(size=(n_members, n_steps, *shape))).astype(dtype)
    coords = {
        "number": np.arange(n_members), "step": np.arange(n_steps) * 6, "latitude": np.linspace(60.0, 50.0, shape[0]),
        "longitude": np.arange(shape[1]), "area": (PLACES, np.zeros(shape)), "time": 3,
    }  # fmt: skip
    return xr.DataArray(values, coords, ("number", "step", *PLACES), "t2m", {"units": "degC", "cell_methods": "x"})


def test_cluster_is_solve_with_labels_back_where_they_came_from():
    array = ensemble()
    nodes = Nodes.from_xarray(array, PLACES)
    wanted = probi.solve(nodes, 3, random_state=5)
    result = array.probi.cluster(3, node=PLACES, random_state=5)
    assert_array_equal(result.label, wanted.labels.reshape(6, 8))
    assert result.label.dtype == np.int32
    distances = probi.expected_distances(nodes, wanted.centers)
    assert_allclose(result.distance, distances.min(axis=1).reshape(6, 8))
    assert_array_equal(result.t2m.transpose("cluster", "step"), wanted.centers)
    assert_array_equal(result.mass, wanted.clusters.mass)
    assert_allclose(result.membership.sum("cluster"), 1.0, rtol=1e-6)
    assert result.attrs["cost"] == wanted.cost


def test_memberships_are_those_of_the_definition():
    array = ensemble()
    result = array.probi.cluster(3, node=PLACES, random_state=5)
    centers = result.t2m.transpose("cluster", "step").to_numpy()
    for place in ((0, 0), (2, 3), (5, 7)):
        members = array.to_numpy()[:, :, *place]
        nearest = [min(range(3), key=lambda c, x=x: np.linalg.norm(x - centers[c])) for x in members]
        wanted = [nearest.count(c) / len(members) for c in range(3)]
        assert_allclose(result.membership[place], wanted, rtol=1e-6)


def test_coordinates_units_and_attributes_come_back(tmp_path):
    array = ensemble()
    result = array.probi.cluster(2, node=PLACES, random_state=0)
    assert set(result.coords) == {"latitude", "longitude", "step", "area", "time", "cluster"}
    for name in PLACES:
        assert_array_equal(result[name], array[name])
    assert result.t2m.attrs == {"units": "degC"}
    assert result.distance.attrs["units"] == "degC"
    assert result.attrs["node"] == "latitude, longitude"
    assert result.attrs["realization"] == "number"
    assert result.attrs["source"].startswith("probi ")
    result.to_netcdf(tmp_path / "result.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "result.nc", engine="h5netcdf") as back:
        assert back.equals(result)


def test_nodes_without_members_stay_nan():
    array = ensemble()
    array[:, :, 2, 3] = np.nan
    array[:4, :, 0, 0] = np.nan
    result = array.probi.cluster(2, node=PLACES, random_state=0)
    for name in ("label", "distance", "membership"):
        gone = np.isnan(result[name]).any("cluster") if name == "membership" else np.isnan(result[name])
        assert_array_equal(np.argwhere(gone.to_numpy()), [[2, 3]])
    assert_allclose(result.mass.sum(), 46 + 3 / 7)


@pytest.mark.slow
@pytest.mark.parametrize("chunks", [None, {"latitude": 2, "longitude": 4}, {"number": 1, "latitude": 3}])
def test_large_data_is_streamed_with_the_same_answers(chunks, monkeypatch):
    monkeypatch.setattr(accessor, "MAX_BYTES_IN_MEMORY", 0)
    monkeypatch.setattr(fields, "BLOCK_BYTES", 500)
    array = ensemble()
    array[:, :, 2, 3] = np.nan
    given = array if chunks is None else array.chunk(chunks)
    result = given.probi.cluster(2, node=PLACES, random_state=0)
    nodes = Nodes.from_xarray(array, PLACES)
    centers = result.t2m.transpose("cluster", "step").to_numpy()
    labels = result.label.to_numpy().reshape(-1)
    assert_array_equal(labels[~np.isnan(labels)], probi.assign(nodes, centers))
    # Two climates that a summary of any blocks finds.
    assert_allclose(np.sort(result.t2m.mean("step")), [5.0, 25.0], atol=0.5)
    assert_allclose(result.attrs["cost"], probi.expected_cost(nodes, centers))
    again = given.probi.cluster(2, node=PLACES, random_state=0)
    assert again.identical(result)


@pytest.fixture
def streamed(monkeypatch, tmp_path):
    """All fields are large, and read in small blocks; temporary files are in tmp_path."""
    monkeypatch.setattr(accessor, "MAX_BYTES_IN_MEMORY", 0)
    monkeypatch.setattr(fields, "BLOCK_BYTES", 500)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(block_copy, "IN_MEMORY", ())


@pytest.fixture
def boxes_read(streamed, monkeypatch):
    """Slices of the blocks that are read from fields."""
    read, boxes = fields.Field.read, []

    def watched(self, slices):
        block = read(self, slices)
        assert block.points.nbytes <= 4 * 7 * 2 * 8
        boxes.append(slices)
        return block

    monkeypatch.setattr(fields.Field, "read", watched)
    return boxes


def with_holes():
    array = ensemble()
    array[3, :, 2, 3] = array[:, :, 5, 1] = np.nan
    return array


@pytest.mark.slow
def test_a_large_field_is_read_once_block_by_block(boxes_read, tmp_path, monkeypatch):
    copied, saved = with_holes().chunk(latitude=1, longitude=4), np.save
    wanted = copied.probi.cluster(2, node=PLACES, random_state=0, weights="cos_latitude")
    assert len(boxes_read) == 12
    boxes_read.clear()

    def full(file, array, **options):
        saved(file, array, **options)
        if len(boxes_read) > 5:
            raise OSError(errno.ENOSPC, "No space left on device")

    def cluster_again():
        result = copied.probi.cluster(2, node=PLACES, random_state=0, weights="cos_latitude")
        assert result.identical(wanted)
        assert boxes_read[:12] == boxes_read[12:]
        assert len(boxes_read) == 24
        boxes_read.clear()

    monkeypatch.setattr(np, "save", full)
    cluster_again()
    monkeypatch.setattr(np, "save", lambda *_, **__: pytest.fail("There is no place for a copy."))
    with monkeypatch.context() as patch:
        patch.setattr(block_copy, "_is_in_memory", lambda _: True)
        cluster_again()
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
        cluster_again()
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2 * copied.nbytes - 1))
    cluster_again()
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("streamed")
def test_each_thread_does_one_thing(monkeypatch):
    """So reading, copying and summarizing overlap."""
    threads = {}

    def watched(call):
        def watching(*arguments):
            threads.setdefault(call, set()).add(threading.get_ident())
            return call(*arguments)

        return watching

    for owner, name in ((fields.Field, "read"), (block_copy.BlockCopy, "add"), (probi.Summary, "update")):
        monkeypatch.setattr(owner, name, watched(getattr(owner, name)))
    with_holes().chunk(latitude=1, longitude=4).probi.cluster(2, node=PLACES, random_state=0)
    assert len(set.union(*threads.values())) == sum(map(len, threads.values())) == 3


@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize("weights", [None, "cos_latitude"])
def test_blocks_with_and_without_missing_values_become_the_same_nodes(weights):
    array = with_holes()
    result = array.chunk(latitude=1, longitude=4).probi.cluster(2, node=PLACES, random_state=0, weights=weights)
    nodes = Nodes.from_xarray(array, PLACES, weights=weights)
    centers = result.t2m.transpose("cluster", "step").to_numpy()
    there = ~np.isnan(result.label.to_numpy().reshape(-1))
    distances = probi.expected_distances(nodes, centers).min(axis=1) / nodes.total_probabilities
    assert_array_equal(result.distance.to_numpy().reshape(-1)[there], distances)
    memberships = result.membership.to_numpy().reshape(-1, 2)[there]
    assert_array_equal(memberships, probi.memberships(nodes, centers).astype(np.float32))
    assert_allclose(result.mass.sum(), nodes.mass.sum())


def test_blocks_of_one_size_share_their_probabilities(boxes_read, monkeypatch):
    """They differ in their points alone, which take long to check already."""
    made, equal = [], validation.equal_probabilities
    monkeypatch.setattr(validation, "equal_probabilities", lambda *given: made.append(given) or equal(*given))
    ensemble().chunk(latitude=1, longitude=4).probi.cluster(2, node=PLACES, random_state=0)
    assert len(boxes_read) == 12
    assert len(made) == 1


def test_loaded_data_is_not_copied(boxes_read, monkeypatch):
    monkeypatch.setattr(np, "save", lambda *_, **__: pytest.fail("It is in memory."))
    with_holes().probi.cluster(2, node=PLACES, random_state=0)
    assert len(boxes_read) > 2


def test_a_copy_is_deleted_after_an_error(boxes_read, tmp_path, monkeypatch):
    files, make = [], tempfile.TemporaryFile

    def watched(**options):
        files.append(make(**options))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", watched)
    array = ensemble()
    array[2, 0, 5, 7] = np.nan
    with pytest.raises(InputError, match="NaN for others"):
        array.chunk(latitude=1, longitude=4).probi.cluster(2, node=PLACES)
    assert [file.closed for file in files] == [True]
    assert not list(tmp_path.iterdir())


def test_a_folder_in_memory_is_told_from_one_on_disk():
    if not Path("/proc/self/mountinfo").exists():
        pytest.skip("needs /proc")
    kinds = {line.split()[1]: line.split()[2] for line in Path("/proc/mounts").read_text().splitlines()}
    for folder in {"/dev/shm", "/proc"} & set(kinds):
        assert block_copy._is_in_memory(Path(folder)) == (kinds[folder] in ("tmpfs", "ramfs"))
    assert not block_copy._is_in_memory(Path("/no such folder"))


def test_outliers_have_the_label_of_the_library(monkeypatch):
    array = ensemble()
    array[..., 2, 3] += 900.0
    array[..., 4, 5] = np.nan
    for size in (accessor.MAX_BYTES_IN_MEMORY, 0):  # in memory, and streamed
        monkeypatch.setattr(accessor, "MAX_BYTES_IN_MEMORY", size)
        labels = array.probi.cluster(2, node=PLACES, random_state=0, outliers=0.03).label
        assert labels[2, 3] == -1
        assert np.isnan(labels[4, 5])
        assert (labels == -1).sum() == 1
    members = ensemble()
    members[3] += 900.0
    labels = members.probi.scenarios(2, random_state=0, outliers=0.15).label
    by_solve = probi.solve(Nodes.from_xarray(members, "number"), 2, random_state=0, outliers=0.15).labels
    assert_array_equal(labels, by_solve)
    assert (labels == -1).any()


def test_several_variables_and_a_name_that_is_taken():
    dataset = xr.Dataset({"t2m": ensemble(), "label": ensemble(1).assign_attrs(units="K").isel(step=0, drop=True)})
    result = dataset.probi.cluster(2, node=PLACES, scale={"label": 10.0}, random_state=0)
    assert result.t2m.dims == ("cluster", "step")
    assert result.label_center.dims == ("cluster",)
    assert result.label_center.attrs["units"] == "K"
    assert "units" not in result.distance.attrs
    assert_allclose(np.sort(result.label_center), [5.0, 25.0], atol=1.0)  # in its own units
    assert result.label.dtype == np.int32


def test_float32_centers_and_stacked_places():
    result = ensemble(dtype=np.float32).stack(place=PLACES).probi.cluster(2, node="place", random_state=0)
    assert result.t2m.dtype == np.float32
    assert result.label.unstack("place").shape == (6, 8)


def test_weights_reach_the_solver():
    result = ensemble().probi.cluster(2, node=PLACES, weights="cos_latitude", random_state=0)
    assert_allclose(result.mass.sum(), 8 * np.cos(np.radians(np.linspace(60, 50, 6))).sum())


# -- scenarios --------------------------------------------------------------------------------------------------------


def storms(n_calm=7, n_stormy=3):
    rng = np.random.default_rng(3)
    storm = np.repeat([0.0, 20.0], [n_calm, n_stormy])[:, None, None]
    coords = {"number": np.arange(100, 100 + n_calm + n_stormy), "latitude": [60.0, 50.0, 40.0], "longitude": range(4)}
    return xr.DataArray(storm + rng.normal(size=(n_calm + n_stormy, 3, 4)), coords, ("number", *PLACES), "gust")


def test_scenarios_are_those_of_choose_k():
    members = ensemble(n_members=30)
    result = members.probi.scenarios(3, random_state=0)
    choice = probi.choose_k(Nodes.from_xarray(members, "number"), range(2, 5), n_worlds=0, random_state=0)
    assert result.cost == choice.cost[1]
    assert_array_equal(result.label, choice.results[1].labels)


def test_scenarios_have_probabilities_centers_and_real_members():
    gusts = storms()
    result = gusts.probi.scenarios(2, random_state=0)
    assert_allclose(result.probability, [0.7, 0.3])
    assert_array_equal(result.label, [0] * 7 + [1] * 3)
    assert result.gust.dims == ("scenario", *PLACES)
    # The member with the least sum of distances to those of its scenario.
    values = gusts.to_numpy().reshape(10, -1)
    for scenario, own in enumerate((range(7), range(7, 10))):
        sums = [sum(np.linalg.norm(values[i] - values[j]) for j in own) for i in own]
        assert result.representative[scenario] == 100 + own[int(np.argmin(sums))]
    real = gusts.sel(number=result.representative)
    assert real.dims == ("scenario", *PLACES)
    centers = result.gust.to_numpy().reshape(2, -1)
    assert_allclose(result.distance, np.linalg.norm(values - centers[result.label.to_numpy()], axis=1))


def test_scenarios_weighted_by_area_and_on_the_sea():
    gusts = storms()
    gusts[:, 0, 1] = np.nan  # land
    gusts[4] = np.nan  # a member that was lost
    result = gusts.probi.scenarios(2, weights="cos_latitude", random_state=0)
    assert_allclose(result.probability, [6 / 9, 3 / 9])
    assert np.isnan(result.gust[:, 0, 1]).all()
    assert np.isnan(result.gust).sum() == 2
    assert_array_equal(np.flatnonzero(np.isnan(result.label)), [4])
    # Centers are back in the units of the data.
    assert_allclose(result.gust.mean(PLACES), [0.0, 20.0], atol=1.0)
    with_names = gusts.rename(number="chain").expand_dims(draw=2)
    result = with_names.probi.scenarios(2, random_state=0)
    assert set(result.representative_chain.values) <= set(range(100, 110))
    assert set(result.representative_draw.values) <= {0, 1}


@pytest.mark.filterwarnings("ignore::probi.SolverWarning")
def test_more_scenarios_than_different_members():
    gusts = storms()[[0, 0, 9, 9]].assign_coords(number=range(4))
    result = gusts.probi.scenarios(3, random_state=0)
    assert_allclose(gusts.sel(number=result.representative), result.gust)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: storms().probi.scenarios(11), "There are 10 members for 11 scenarios: ask for fewer."),
        (
            lambda: storms().rename(number="run").probi.scenarios(2),
            "Cannot tell which dimension holds the realizations",
        ),
        (lambda: storms().rename(number="scenario").probi.scenarios(2, "scenario"), "a dimension 'scenario' already"),
        (lambda: ensemble().rename(step="cluster").probi.cluster(2, PLACES), "There is a dimension 'cluster' already"),
        (lambda: (np.nan * ensemble()).probi.cluster(2, PLACES), "All values are NaN"),
        (lambda: ensemble().probi.cluster(0, PLACES), "n_clusters is 0"),
    ],
)
def test_messages(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.process
def test_without_xarray_the_extra_is_named():
    code = """
import json, sys
sys.modules["xarray"] = None
import probi
try:
    import probi.xarray
except probi.MissingExtraError as error:
    print(json.dumps(str(error)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == "xarray is not installed: pip install xarray"
