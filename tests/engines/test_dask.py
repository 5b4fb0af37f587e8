"""probi on Dask: a real cluster of processes, and Dask's own schedulers."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from datetime import date

import numpy as np
import pandas as pd
import pytest
from commands import command
from commands import probi as probi_command
from engines import listening
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from table_files import GROUP, as_nodes, columns_of, options_of, some_nodes, write

import probi
from probi import InputError, Nodes, Summary, expected_cost, solve

dask = pytest.importorskip("dask", reason="Dask is not installed")
distributed = pytest.importorskip("distributed", reason="Dask's cluster is not installed")

import dask.array as da  # noqa: E402
import dask.bag as db  # noqa: E402
import dask.dataframe as dd  # noqa: E402

from probi.engines import dask as on_dask  # noqa: E402
from probi.io.write import ASSIGNMENT_COLUMNS  # noqa: E402

pytestmark = pytest.mark.dask

SETTINGS = {"size": 40, "random_state": 5}
N_FILES = 6
N_PARTS = 3 * N_FILES


def cluster(n_workers, **options):
    return distributed.LocalCluster(
        n_workers=n_workers, dashboard_address=":0", worker_dashboard_address=None, **options
    )


@pytest.fixture(scope="module")
def client():
    """Two processes, forked from one that has imported what they need: else each would import it."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        distributed.utils.get_mp_context().set_forkserver_preload(["distributed", "numba", "probi.engines.dask"])
        with cluster(2, threads_per_worker=1) as workers, distributed.Client(workers) as client:
            yield client


@pytest.fixture(scope="module")
def other():
    """One worker of three threads in this process, known to nobody by default."""
    with (
        cluster(1, threads_per_worker=3, processes=False) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        yield client


def frame_of(columns, n_partitions):
    with dask.config.set({"dataframe.convert-string": False}):  # or it makes strings of lists
        return dd.from_pandas(pd.DataFrame(columns), npartitions=n_partitions, sort=False)


def digest(summary):
    return hashlib.sha256(summary.to_bytes()).hexdigest()


def test_the_module_needs_no_import_of_its_own(monkeypatch):
    monkeypatch.delattr(probi.engines, "dask")
    assert probi.engines.dask is on_dask


# -- sources ----------------------------------------------------------------------------------------------------------


def test_no_source_loses_a_node():
    """With a size that keeps all nodes the cost of any centers is exact, so it tells what was read."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 3))
    centers = rng.normal(size=(4, 3))
    array = da.from_array(points, chunks=(70, 2))
    bag = db.from_sequence([Nodes.from_groups(points[i : i + 50], 5) for i in range(0, 300, 50)], npartitions=3)
    frame = dd.from_pandas(pd.DataFrame(points, columns=list("xyz")), npartitions=4)
    for source, reading, nodes in (
        (array, {}, Nodes.from_points(points)),
        (array, {"group_size": 5}, Nodes.from_groups(points, 5)),
        (da.from_array(points.reshape(60, 5, 3), chunks=(7, 2, 3)), {}, Nodes.from_groups(points, 5)),
        (bag, {}, Nodes.from_groups(points, 5)),
        (frame, {}, Nodes.from_points(points)),
        (frame, {"group_size": 5}, Nodes.from_groups(points, 5)),
        (frame, {"group_size": 100}, Nodes.from_groups(points, 100)),
    ):
        summary = on_dask.summarize(source, 4, random_state=0, **reading)
        assert summary.n_nodes == len(nodes)
        assert summary.evaluate(centers).cost == pytest.approx(expected_cost(nodes, centers), rel=1e-12)


@pytest.mark.parametrize("layout", ["points", "groups", "long", "nested", "nested columns"])
@pytest.mark.parametrize("n_partitions", [1, 5])
def test_frames_in_all_layouts(layout, n_partitions):
    plain = some_nodes(layout, n=70)
    nodes = as_nodes(plain)
    frame = frame_of(columns_of(plain, layout), n_partitions)
    summary = on_dask.summarize(frame, 3, random_state=0, **options_of(layout))
    centers = np.array([[-5.0, 0.0], [5.0, 0.0], [0.0, 3.0]])
    assert summary.n_nodes == len(nodes)
    assert summary.evaluate(centers).cost == pytest.approx(expected_cost(nodes, centers), rel=1e-12)
    found = on_dask.assign(frame, centers, **options_of(layout)).compute()
    labels = probi.assign(nodes, centers)
    if nodes.ids is None:
        assert_array_equal(found["cluster"], labels)
    else:
        assert dict(zip(found["id"], found["cluster"], strict=True)) == dict(zip(nodes.ids, labels, strict=True))
    assert list(found.columns[-8:]) == [name for name, *_ in ASSIGNMENT_COLUMNS]
    assert "row" not in found.columns


def test_rows_of_a_long_frame_may_come_in_any_order():
    plain = some_nodes("long", n=300, ids="str")
    table = pd.DataFrame(columns_of(plain, "long"))
    frames = [dd.from_pandas(table.sample(frac=1, random_state=seed), npartitions=4, sort=False) for seed in range(3)]
    summaries = [on_dask.summarize(frame, 3, layout="long", **SETTINGS) for frame in frames]
    assert len({digest(summary) for summary in summaries}) == 1
    assert summaries[0].n_nodes == 300
    assert summaries[0].n_retained < 300


def test_a_group_may_span_several_partitions():
    plain = some_nodes("groups", n=30)
    table = pd.DataFrame(columns_of(plain, "groups"))
    parts = [table.iloc[a:b] for a, b in ((0, 1), (1, 2), (2, 2), (2, 4), (4, 61), (61, 62), (62, 90))]
    frame = dd.from_delayed([dask.delayed(part) for part in parts], meta=table.iloc[:0])
    centers = np.array([[-5.0, 0.0], [5.0, 0.0]])
    assert_array_equal(
        on_dask.assign(frame, centers, group_size=GROUP).compute()["cluster"],
        probi.assign(as_nodes(plain), centers),
    )


def test_labels_of_arrays_and_bags_are_lazy():
    rng = np.random.default_rng(0)
    points, centers = rng.normal(size=(60, 2)), rng.normal(size=(3, 2))
    expected = probi.assign(Nodes.from_groups(points, 5), centers)
    labels = on_dask.assign(da.from_array(points, chunks=(13, 1)), centers, group_size=5)
    assert isinstance(labels, da.Array)
    assert labels.shape == (12,)
    assert_array_equal(labels.compute(), expected)
    bag = db.from_sequence([Nodes.from_groups(points, 5)] * 2, npartitions=2)
    for found in on_dask.assign(bag, centers).compute():  # by Dask's default in processes, which take seconds to start
        assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("source", "reading", "message"),
    [
        (da.ones((9, 2)), {"id": "x"}, "Array takes no option id"),
        (da.ones((9, 2)), {"group_size": 4}, "not a multiple of group_size"),
        (da.ones((9, 2, 3)), {"group_size": 3}, "along its first axis"),
        (da.ones(9), {}, "2 or 3 dimensions"),
        (da.ones((9, 2)), {"group_size": 0}, "group_size is 0"),
        (da.ones((9, 2)), {"layout": "long"}, "layout 'points', not 'long'"),
        (db.from_sequence([1]), {"layout": "points"}, "no reading options, got layout"),
        (np.ones((9, 2)), {}, "ndarray is neither a collection of this engine"),
        (pd.DataFrame({"x": [1.0]}), {}, "DataFrame is neither a collection of this engine"),
        ("nothing.parquet", {}, "no file nothing.parquet"),
    ],
)
def test_what_cannot_be_read_is_said(source, reading, message):
    with pytest.raises(InputError, match=message):
        on_dask.summarize(source, 2, **reading)


def test_assignments_have_their_columns_also_where_the_first_rows_make_no_node(tmp_path):
    rng = np.random.default_rng(0)
    points, centers = rng.normal(size=(6000, 2)), rng.normal(size=(3, 2))
    path = write(tmp_path / "x.parquet", {"x": points[:, 0], "y": points[:, 1]}, step=1000)
    expected = probi.assign(Nodes.from_groups(points, 1500), centers)
    frame = dd.from_pandas(pd.DataFrame(points), npartitions=3)  # names that are numbers
    for source in (path, frame):
        lazy = on_dask.assign(source, centers, group_size=1500, part_bytes=1)
        assert_array_equal(lazy.compute()["cluster"], expected)
        assert list(lazy.columns) == list(lazy.compute().columns)


@pytest.mark.parametrize("ids", [[date(2026, 3, day) for day in range(1, 9)], [bytes([65 + i]) for i in range(8)]])
def test_ids_keep_their_type(tmp_path, ids):
    points = np.arange(16.0).reshape(8, 2)
    path = write(tmp_path / "x.parquet", {"id": ids, "x": points[:, 0], "y": points[:, 1]})
    for source in (path, frame_of({"id": ids, "x": points[:, 0], "y": points[:, 1]}, 2)):
        lazy = on_dask.assign(source, points[[1, 6]], id="id", layout="points")
        found = lazy.compute()
        assert found["id"].tolist() == ids
        assert lazy.dtypes["id"] == found.dtypes["id"]


def test_assignments_are_lazy_and_of_the_promised_types(tmp_path):
    columns = {"id": ["a", "b", "c", "d"], "x": [0.0, 1.0, 2.0, float("nan")], "y": [0.0] * 4}
    path = write(tmp_path / "x.parquet", columns, step=2)
    lazy = on_dask.assign(path, np.array([[0.0, 0.0], [2.0, 0.0]]), part_bytes=1)
    first = lazy.partitions[0].compute()
    assert_array_equal(first["cluster"], [0, 0])
    assert_array_equal(first.dtypes.astype(str), lazy._meta.dtypes.astype(str))
    with pytest.raises(InputError, match="row 4 of node 'd'"):
        lazy.compute()


def test_progress_without_a_cluster_counts_parts():
    seen = []
    array = da.ones((40, 2), chunks=(10, 2)) * da.arange(40, chunks=10)[:, None]
    with dask.config.set(scheduler="threads"):
        on_dask.summarize(array, 2, on_part=lambda *counts: seen.append(counts))
    assert sorted(seen) == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_estimator():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3000, 2)) + 9 * rng.integers(2, size=(3000, 1))
    model = clone(on_dask.DaskPROBI(2, random_state=0, reading={"group_size": 3}))
    model.fit(da.from_array(points, chunks=(1000, 2)))
    nodes = Nodes.from_groups(points, 3)
    assert model.summary_.n_nodes == len(nodes)
    assert_array_equal(model.labels_.compute(), probi.assign(nodes, model.cluster_centers_))
    assert model.cost_ == pytest.approx(expected_cost(nodes, model.cluster_centers_), rel=0.05)
    assert model.n_features_in_ == 2
    assert_array_equal(model.fit_predict(da.from_array(points, chunks=(1000, 2))).compute(), model.labels_.compute())
    # What does not work with lazy data is not there.
    assert not any(hasattr(model, name) for name in ("transform", "score", "partial_fit"))


def test_estimator_takes_all_parameters_of_a_summary():
    points = da.from_array(np.random.default_rng(0).normal(size=(3000, 6, 2)), chunks=(1000, 6, 2))
    further = {"max_realizations": 3, "audit_size": 50}
    model = on_dask.DaskPROBI(2, summary_size=8, random_state=0, summary_params=further).fit(points)
    assert model.summary_.max_realizations == 3
    assert len(model.summary_.sample()) == 51


def test_estimator_before_it_is_fitted():
    with pytest.raises(NotFittedError):
        on_dask.DaskPROBI().predict(da.ones((3, 2)))


def test_estimator_predicts_with_the_scales_that_it_was_fitted_with():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": np.sort(rng.normal(size=4000)), "y": 100 * rng.normal(size=4000)})
    model = on_dask.DaskPROBI(2, random_state=0, reading={"scale": "standard"})
    model.fit(dd.from_pandas(table, npartitions=4))
    again = model.predict(dd.from_pandas(table.iloc[:1000], npartitions=2)).compute()
    assert_array_equal(again["cluster"], model.labels_.compute()["cluster"].iloc[:1000])


def test_outliers_have_no_label_in_any_source():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3, 2)) + 9 * rng.integers(2, size=(1000, 1, 1))
    X[:20] += 500.0 * rng.choice([-1.0, 1.0], (20, 1, 1))
    array = da.from_array(X, chunks=(300, 3, 2))
    model = clone(on_dask.DaskPROBI(2, outliers=0.02, random_state=0)).fit(array)
    expected = np.where(np.arange(1000) < 20, -1, probi.assign(X, model.cluster_centers_))
    assert_array_equal(model.labels_.compute(), expected)
    bag = db.from_sequence([Nodes.from_dense(X[:300]), Nodes.from_dense(X[300:])], npartitions=2)
    assert_array_equal(np.concatenate(model.predict(bag).compute(scheduler="threads")), expected)
    rows = X.reshape(-1, 2)
    frame = dd.from_pandas(pd.DataFrame({"x": rows[:, 0], "y": rows[:, 1]}), npartitions=2)
    model.reading = {"layout": "groups", "group_size": 3}
    assert_array_equal(model.predict(frame).compute()["cluster"], expected)


def test_memberships_of_arrays_and_bags():
    X = np.random.default_rng(0).normal(size=(600, 3, 2))
    model = on_dask.DaskPROBI(3, random_state=0).fit(da.from_array(X, chunks=(200, 3, 2)))
    expected = probi.memberships(X, model.cluster_centers_)
    assert_array_equal(model.predict_proba(da.from_array(X, chunks=(100, 3, 2))).compute(), expected)
    bag = db.from_sequence([Nodes.from_dense(X[:300]), Nodes.from_dense(X[300:])], npartitions=2)
    assert_array_equal(np.concatenate(model.predict_proba(bag).compute(scheduler="threads")), expected)
    model.reading = {"group_size": 3}
    rows = da.from_array(X.reshape(-1, 2), chunks=(400, 2))
    assert_array_equal(model.predict_proba(rows).compute(), expected)
    with pytest.raises(InputError, match="predict has memberships"):
        model.predict_proba(dd.from_pandas(pd.DataFrame({"x": [1.0]}), npartitions=1))


def test_estimator_of_files_and_of_frames_in_any_order(tmp_path):
    plain = some_nodes("long", n=200)
    path = write(tmp_path / "x.parquet", columns_of(plain, "long"), step=50)
    table = pd.DataFrame(columns_of(plain, "long")).sample(frac=1, random_state=0)
    frame = dd.from_pandas(table, npartitions=3, sort=False)
    nodes = as_nodes(plain)
    for source in (path, frame):
        model = on_dask.DaskPROBI(3, random_state=0, reading={"layout": "long", "scale": "robust"}).fit(source)
        found = model.labels_.compute()
        factors = 1 / np.array(model.summary_.about["space"]["scale"])
        labels = probi.assign(nodes.scaled(factors), model.cluster_centers_)
        assert dict(zip(found["id"], found["cluster"], strict=True)) == dict(zip(nodes.ids, labels, strict=True))


# -- a cluster --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of groups of ten rows, which do not end where row groups do: each three parts, merged in three rounds."""
    rng = np.random.default_rng(1)
    folder = tmp_path_factory.mktemp("files")
    middles = 10 * rng.normal(size=(10, 5))  # as many as are solved for: one optimum
    for i in range(N_FILES):
        owner = np.repeat(rng.integers(10, size=500), 10)
        points = (middles[owner] + rng.normal(size=(5000, 5))).astype(np.float32)
        write(folder / f"{i:02}.parquet", {f"x{j}": points[:, j] for j in range(5)}, step=2499)
    return folder


def summarized(folder, **options):
    return on_dask.summarize(folder, 10, random_state=0, part_bytes=1, layout="groups", group_size=10, **options)


def test_the_same_bytes_whoever_does_the_work(folder, client, other):
    seen = []
    first = summarized(folder, client=client, on_part=lambda n_done, n: seen.append((n_done, n)))
    assert first.n_nodes == 3000 > first.n_retained
    assert seen == [(i + 1, N_PARTS) for i in range(N_PARTS)]
    assert summarized(folder, client=other).to_bytes() == first.to_bytes()
    for scheduler in ("threads", "synchronous"):
        with dask.config.set(scheduler=scheduler):
            assert summarized(folder).to_bytes() == first.to_bytes()
    local = Summary(10, random_state=0)
    for nodes in probi.io.read(folder, layout="groups", group_size=10):
        local.update(nodes)
    nodes = Nodes.concat(list(probi.io.read(folder, layout="groups", group_size=10)))
    costs = [expected_cost(nodes, solve(s, 10, random_state=0).centers) for s in (first, local)]
    assert_allclose(costs[0], costs[1], rtol=0.01)


def test_covertype_in_32_partitions(data_file, client, other, tmp_path):
    import pyarrow.parquet as pq

    table = pq.read_table(data_file("covertype.parquet"))
    step = -(-len(table) // 32 // 10) * 10
    for i in range(32):
        pq.write_table(table.slice(i * step, step), tmp_path / f"{i:02}.parquet")
    reading = {"layout": "groups", "group_size": 10, "part_bytes": 1}
    summary = on_dask.summarize(tmp_path, 20, random_state=0, client=client, **reading)
    assert on_dask.summarize(tmp_path, 20, random_state=0, client=other, **reading).to_bytes() == summary.to_bytes()
    nodes = Nodes.concat(list(probi.io.read(tmp_path, layout="groups", group_size=10)))
    assert summary.n_nodes == len(nodes) == 58101
    local = Summary(20, random_state=0)
    local.update(nodes)
    costs = [expected_cost(nodes, solve(s, 20, random_state=0).centers) for s in (summary, local)]
    assert_allclose(costs[0], costs[1], rtol=0.01)


def test_parts_that_finish_in_another_order_give_the_same_bytes(folder, other):
    paths = sorted(folder.iterdir())
    slow = [dask.delayed(_late)(path.read_bytes(), i) for i, path in enumerate(paths)]
    meta = _frame(paths[0].read_bytes()).iloc[:0]
    frames = dd.from_delayed([dask.delayed(_frame)(data) for data in slow], meta=meta)
    first = on_dask.summarize(frames, 10, random_state=0, group_size=10, client=other)
    with dask.config.set(scheduler="synchronous"):
        assert on_dask.summarize(frames, 10, random_state=0, group_size=10).to_bytes() == first.to_bytes()


def _late(data, i):
    time.sleep(0.02 * (i * 7 % 5))
    return data


def _frame(data):
    import io

    return pd.read_parquet(io.BytesIO(data))


def test_the_active_client_tells_of_progress_too(folder, client):
    seen = []
    summarized(folder, on_part=lambda *counts: seen.append(counts))
    assert len(seen) == N_PARTS


def test_after_an_error_the_rest_is_not_computed(client, tmp_path):
    # Workers that still import and load kernels would go on with parts for seconds before one of them finds the error.
    on_dask.summarize(dd.from_pandas(pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}), npartitions=4), 1, client=client)

    def part(i):
        (tmp_path / str(i)).touch()
        time.sleep(0.3)
        # Every tenth: Dask decides which part comes first.
        return pd.DataFrame({"x": [1.0, 2.0 if i % 10 else float("nan")]})

    frame = dd.from_delayed([dask.delayed(part)(i) for i in range(90)], meta=pd.DataFrame({"x": [1.0]}))
    with pytest.raises(InputError, match=r"partition \d*0, row 2"):
        on_dask.summarize(frame, 1, client=client)
    time.sleep(1.0)
    # The error travels while others go on, on a busy machine for seconds.
    assert len(list(tmp_path.iterdir())) < 60


def test_a_file_that_was_replaced_is_read_again(other, tmp_path):
    for value in (1.0, 2.0):
        path = write(tmp_path / "x.parquet", {"x": [value] * 40, "y": [0.0] * 40}, step=2)
        # Results of the first time are held by nobody, or would be known by another key.
        summary = on_dask.summarize(path, 1, part_bytes=1, client=other, on_part=lambda *counts: time.sleep(0.02))
        assert solve(summary, 1).centers[0, 0] == value


def test_a_long_frame_on_a_client_that_is_not_the_default_one(client, other):
    table = pd.DataFrame(columns_of(some_nodes("long", n=300), "long")).sample(frac=1, random_state=0)
    frame = dd.from_pandas(table, npartitions=4, sort=False)
    with dask.config.set(scheduler="threads"):
        expected = on_dask.summarize(frame, 3, layout="long", **SETTINGS)
    found = on_dask.summarize(frame, 3, layout="long", client=other, **SETTINGS)
    assert found.to_bytes() == expected.to_bytes()
    assert found.about["counts"]["rows"] == len(table)


def test_a_poisoned_part_is_named_to_the_user(folder, client, tmp_path):
    for path in sorted(folder.iterdir())[:3]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    columns = {f"x{j}": np.zeros(2000, np.float32) for j in range(5)}
    columns["x3"][1234] = np.nan
    bad = write(tmp_path / "bad.parquet", columns, step=333)
    with pytest.raises(InputError) as caught:
        summarized(tmp_path, client=client)
    assert str(bad) in str(caught.value)
    assert "row 1235" in str(caught.value)
    frame = dd.from_pandas(pd.DataFrame({"id": [7, 7, 8, 8], "x": [0.0, 1, 2, np.nan], "p": [0.5] * 4}), npartitions=2)
    with pytest.raises(InputError, match=r"partition \d, row \d .*'x'"):
        on_dask.summarize(frame, 1, layout="long", client=client)


def test_what_is_sent_are_summaries(folder, monkeypatch):
    """To the worker that merges at most as many as are merged at once; to the client one."""
    sizes, merge = [], on_dask.merge

    def measured(parts):
        sizes.append([len(part) for part in parts])
        return merge(parts)

    monkeypatch.setattr(on_dask, "merge", measured)
    with dask.config.set(scheduler="synchronous"):
        final = len(summarized(folder).to_bytes())
    assert len(sizes) > N_PARTS // 4
    assert max(map(len, sizes)) <= 4
    assert max(map(sum, sizes)) <= final * np.log2(N_PARTS)


def test_a_killed_worker_changes_nothing(folder, client):
    with dask.config.set(scheduler="threads"):
        expected = summarized(folder)
    pids = list(client.run(os.getpid).values())
    killed = []

    def kill(n_done, n_parts):
        if n_done >= n_parts // 4 and not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = summarized(folder, client=client, on_part=kill)
        client.wait_for_workers(2)  # another one in its place, for the tests that follow
    assert killed
    assert pids[0] not in client.run(os.getpid).values()
    assert found.to_bytes() == expected.to_bytes()


# -- processes --------------------------------------------------------------------------------------------------------


def test_kernels_in_many_threads_of_a_worker_at_once():
    rng = np.random.default_rng(0)
    parts = [Nodes.from_dense(rng.normal(size=(2000, 5, 3))) for _ in range(8)]
    expected = [_summary_bytes(part, i) for i, part in enumerate(parts)]
    found = [b""] * len(parts)

    def work(i):
        found[i] = _summary_bytes(parts[i], i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def _summary_bytes(nodes, shard):
    summary = Summary(3, 40, random_state=0, shard=shard)
    summary.update(nodes)
    return summary.to_bytes()


# -- the command line -------------------------------------------------------------------------------------------------


def test_the_same_results_folder(client, tmp_path, capsys, monkeypatch):
    import pyarrow.parquet as pq

    monkeypatch.setattr("probi.cli.results.write_run_report", lambda outcome, path: None)
    columns = columns_of(some_nodes("long", n=3000), "long")
    columns["x0"][4321] = float("nan")
    path = write(tmp_path / "x.parquet", columns, step=1000)
    monkeypatch.chdir(tmp_path)
    settings = ("-k", "2,3", "--layout", "long", "--size", "120", "--n-init", 2, "--missing", "skip-node", "--json")
    settings += ("--outliers", 0.02)
    here = probi_command(capsys, "cluster", path, *settings, "-o", tmp_path / "here")
    scheduler = client.scheduler.address
    there = probi_command(
        capsys, "cluster", path, *settings, "-o", tmp_path / "there", "--engine", "dask", "--workers", scheduler
    )
    assert "2 workers" in there.err
    names = {p.name for p in (tmp_path / "here").iterdir()}
    assert {p.name for p in (tmp_path / "there").iterdir()} == names
    assert {"rejected.csv", "assignment.parquet", "summary.probi", "result.json"} <= names
    assert (tmp_path / "there" / "rejected.csv").read_bytes() == (tmp_path / "here" / "rejected.csv").read_bytes()
    # One part is the whole, so everything is the same.
    for name in ("summary.probi", "centers.parquet", "centers.csv"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    assigned = pq.read_table(tmp_path / "there" / "assignment.parquet")
    assert assigned == pq.read_table(tmp_path / "here" / "assignment.parquet")
    assert 0 < np.count_nonzero(assigned["cluster_3"].to_numpy() == -1) < 200
    assert there.json["solutions"][0]["cost"] == pytest.approx(here.json["solutions"][0]["cost"], rel=1e-12)


def test_workers_on_this_machine_are_reached_from_it_alone():
    before = listening.addresses()
    with on_dask.connected("1") as engine:
        new = listening.addresses() - before
        assert "http://127.0.0.1:" in engine.description
    assert len(new) >= 3  # the scheduler, its dashboard, the worker
    assert listening.beyond_this_machine(new) == set()


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="signals of Windows are others")
def test_ctrl_c_is_one_sentence(tmp_path):
    """A terminal sends it to the worker, too."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(200_000, 10)))
    options = ("-k", 5, "--group-size", 10, "--engine", "dask", "--workers", 1, "--part-size", 1)
    with subprocess.Popen(
        command("cluster", tmp_path / "x.npy", *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        said = [process.stderr.readline(), process.stderr.readline()]
        assert "Dask with 1 worker" in said[-1]
        os.killpg(process.pid, signal.SIGINT)
        out, rest = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert rest.splitlines() == ["probi: Stopped. Nothing was saved."]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--workers", "2"), "--workers requires --engine"),
        (("--engine", "dask", "--workers", "00"), "must be a positive integer"),
        (("--engine", "dask", "--workers", "2.5"), "must be a positive integer"),
        (("--engine", "dask", "--checkpoint", "c.probi"), "--checkpoint requires --engine local"),
        (("--engine", "dask", "--gather"), "cannot gather"),
        (("--engine", "dask", "--workers", "tcp://127.0.0.1:9"), "no Dask scheduler at tcp://127.0.0.1:9"),
    ],
)
def test_engines_that_do_not_go_together_with_other_options(tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.setattr("probi.engines.dask.CONNECT_SECONDS", 1)
    path = write(tmp_path / "x.csv", {"x": [1.0, 2.0], "y": [3.0, 5.0]})
    ran = probi_command(capsys, "cluster", path, "-k", 1, *options)
    assert ran.code == 2
    assert message in ran.err
