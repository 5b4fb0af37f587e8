"""probi on Spark: DataFrames, files and the estimator, in a real session with two threads."""

import math
import random
from collections import Counter

import numpy as np
import pytest
from engines.spark_sessions import ADAPTIVE, need_spark
from numpy.testing import assert_array_equal
from samples import as_lists, blobs
from table_files import GROUP, as_nodes, columns_of, options_of, some_nodes, write

import probi
import probi.io
from probi import InputError, Nodes, Summary, expected_cost
from probi.summary.config import SummaryConfig

need_spark()

from pyspark.errors import PythonException  # noqa: E402
from pyspark.ml import Pipeline  # noqa: E402
from pyspark.ml.feature import SQLTransformer  # noqa: E402

from probi.engines import spark as on_spark  # noqa: E402
from probi.engines.tasks import Summarize, unpack_part  # noqa: E402
from probi.io.write import ASSIGNMENT_COLUMNS  # noqa: E402

pytestmark = pytest.mark.spark

CENTERS = np.array([[-5.0, 5.0], [0.0, 0.0], [6.0, 3.0]])
NAN = float("nan")


@pytest.fixture(autouse=True, scope="module")
def small_batches(spark):
    """Small batches of rows, so that nodes go across their borders."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "50")
    yield
    spark.conf.set(name, before)


@pytest.fixture
def adaptive(spark):
    """Plans that change while a query runs, as Spark has them unless told otherwise."""
    spark.conf.set(ADAPTIVE, "true")
    yield
    spark.conf.set(ADAPTIVE, "false")


def frame_of(spark, columns, n_partitions=3, seed=0):
    """A DataFrame of the rows in any order."""
    rows = list(zip(*columns.values(), strict=True))
    random.Random(seed).shuffle(rows)
    return spark.createDataFrame(rows, list(columns)).repartition(n_partitions)


def ordered(columns):
    """The same columns with one that says the order of the rows."""
    return columns | {"place": [10.0 * i for i in range(len(next(iter(columns.values()))))]}


def as_set(nodes):
    """Nodes as they are, whatever their order and that of their realizations."""
    weighted = zip(as_lists(nodes), nodes.weights.tolist(), strict=True)
    return sorted((weight, sorted(node)) for node, weight in weighted)


def assert_holds(summary, nodes, centers=CENTERS):
    """All nodes, as they are, and what any centers cost."""
    assert summary.n_nodes == summary.n_retained == len(nodes)
    assert summary.mass == pytest.approx(nodes.mass.sum(), rel=1e-12)
    assert summary.evaluate(centers).cost == pytest.approx(expected_cost(nodes, centers), rel=1e-12)
    assert as_set(summary.sample()) == as_set(nodes)


# -- summaries --------------------------------------------------------------------------------------------------------


def test_nested_columns_keep_their_nodes(spark):
    plain = some_nodes("nested columns", n=40, ids="str")
    frame = frame_of(spark, columns_of(plain, "nested columns"))
    assert_holds(on_spark.summarize(frame, 3, **options_of("nested columns")), as_nodes(plain))


def test_several_columns_can_name_a_node(spark):
    plain = some_nodes("long", n=40)
    columns = columns_of(plain, "long")
    numbers = columns.pop("id")
    columns |= {"day": [f"day {i % 3}" for i in numbers], "trip.`number": [i // 3 for i in numbers]}
    ids = ["day", "trip.`number"]
    frame = frame_of(spark, columns)
    assert_holds(on_spark.summarize(frame, 3, layout="long", id=ids), as_nodes(plain))
    found = on_spark.assign(frame, CENTERS, layout="long", id=ids).collect()
    clusters = {(row["day"], row["trip.`number"]): row["cluster"] for row in found}
    labels = probi.assign(as_nodes(plain), CENTERS)
    assert clusters == {(f"day {p.id % 3}", p.id // 3): label for p, label in zip(plain, labels, strict=True)}


@pytest.mark.usefixtures("adaptive")
def test_no_group_is_torn_and_rows_too_few_for_one_are_left_out(spark):
    plain = some_nodes("groups", n=40)
    columns = columns_of(plain, "groups")
    longer = ordered({name: [*values, 99.0, 99.0] for name, values in columns.items()})
    summary = on_spark.summarize(frame_of(spark, longer), 3, group_size=GROUP, order="place", n_partitions=5)
    assert_holds(summary, as_nodes(plain))
    assert not spark.sparkContext._jsc.getPersistentRDDs()


def test_groups_need_an_order(spark):
    columns = {"x": [1.0, 2.0, 3.0, 4.0], "place": [1, 2, 3, 3]}
    with pytest.raises(InputError, match="'place' has 3 twice") as caught:
        on_spark.summarize(frame_of(spark, columns), 1, group_size=2, order="place")
    assert "\n" not in str(caught.value)
    assert not spark.sparkContext._jsc.getPersistentRDDs()


@pytest.mark.parametrize(
    ("last", "values", "message"),
    [(None, [None, 1], "no value"), (None, [1.0, NAN], "no value"), (1, [2, 2], "2 twice"), (3, [3, 4], "3 twice")],
)
def test_an_order_has_distinct_values(last, values, message):
    with pytest.raises(InputError, match=message):
        on_spark._check_order("place", last, values)
    assert on_spark._check_order("place", 1, [2, 5]) == 5


@pytest.mark.usefixtures("adaptive")
def test_the_order_of_rows_does_not_matter(spark):
    columns = columns_of(some_nodes("long", n=400), "long")
    first, shuffled = (
        on_spark.summarize(frame, 2, size=8, layout="long", random_state=0, n_partitions=6)
        for frame in (frame_of(spark, columns), frame_of(spark, columns, n_partitions=5, seed=1))
    )
    assert first.n_nodes == 400 > first.n_retained
    assert shuffled.to_bytes() == first.to_bytes()


def test_partitions_may_be_empty_and_more_than_nodes(spark):
    plain = some_nodes("long", n=5, ids="str")
    frame = frame_of(spark, columns_of(plain, "long"))
    assert_holds(on_spark.summarize(frame, 3, layout="long", n_partitions=8), as_nodes(plain))
    points = some_nodes("points", n=9)
    frame = frame_of(spark, columns_of(points, "points"), n_partitions=1).where("id > 0")
    some_empty = frame.where("id < 0").union(frame).union(frame.where("id < 0"))
    assert_holds(on_spark.summarize(some_empty, 3, layout="points", weight="weight"), as_nodes(points))


def test_a_frame_without_rows_is_refused(spark):
    with pytest.raises(InputError, match="no rows"):
        on_spark.summarize(spark.createDataFrame([], "x double"), 3)


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six files of 500 points with ids."""
    folder = tmp_path_factory.mktemp("points")
    X = blobs(n=3000, m=1, d=2, scale=8.0)[0][:, 0]
    for i in range(6):
        part = range(500 * i, 500 * (i + 1))
        write(folder / f"{i}.parquet", {"id": list(part), "x0": X[part, 0], "x1": X[part, 1]}, step=500)
    return folder


def test_a_part_of_files_is_a_shard(spark, folder):
    summary = on_spark.summarize(folder, 2, size=8, layout="points", random_state=3, part_bytes=1)
    expected = Summary(2, 8, random_state=3)
    for shard, path in enumerate(sorted(folder.iterdir())):
        part = Summary(2, 8, random_state=3, shard=shard)
        part.update(Nodes.concat(list(probi.io.read(path, layout="points"))))
        expected = part if shard == 0 else expected.merge(part)
    expected.about = summary.about
    assert summary.to_bytes() == expected.to_bytes()


def test_files_need_a_session(monkeypatch, folder):
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(InputError, match="no active Spark session"):
        on_spark.summarize(folder, 2)


def test_one_summary_comes_to_the_driver(spark):
    """Measured by Spark itself."""
    columns = ", ".join(f"randn({j}) AS x{j}" for j in range(10))
    frame = spark.range(0, 12_000, 1, 12).selectExpr(*columns.split(", "))
    engine = on_spark.SparkEngine()
    how = engine.open(frame, {"layout": "points"})
    task = Summarize(SummaryConfig(10, 40))
    parts = list(map(len, engine.collect(engine.run(frame, how, task))))
    before = set(stages(spark))
    data = engine.merge(engine.run(frame, how, task), task)
    ran = [stage for number, stage in stages(spark).items() if number not in before]
    assert unpack_part(data)[1].n_parts == len(parts) == 12
    sent = sum(stage.resultSize() for stage in ran)
    # A task also tells how it fared, in some kilobytes.
    assert len(data) / 2 < sent < 1.1 * len(data) + 5_000 * sum(stage.numTasks() for stage in ran) < sum(parts)


def stages(spark):
    """All that ran in a session, by number and attempt."""
    store = spark.sparkContext._jsc.sc().statusStore()
    nothing = spark.sparkContext._gateway.new_array(spark.sparkContext._jvm.double, 0)
    found = store.stageList(None, False, False, nothing, None)
    return {(found.apply(i).stageId(), found.apply(i).attemptId()): found.apply(i) for i in range(found.size())}


def test_few_parts_are_merged_at_once(monkeypatch):
    sizes = []
    monkeypatch.setattr(on_spark, "merge", lambda parts: sizes.append(len(parts)) or b"".join(parts))
    numbers = random.Random(0).sample(range(4, 26), 22)
    rows = list(on_spark._merge_groups(4, (on_spark._part_row(number, bytes([number])) for number in numbers)))
    assert max(sizes) == 4
    assert [row.column(0).to_pylist() for row in rows] == [[i] for i in range(1, 7)]
    assert b"".join(row.column(1)[0].as_py() for row in rows) == bytes(range(4, 26))


# -- what is wrong is told ---------------------------------------------------------------------------------------------


def test_a_poisoned_file_is_named_to_the_user(spark, folder, tmp_path):
    bad = write(tmp_path / "bad.parquet", {"id": [7, 8, 9], "x0": [1.0, 2.0, 3.0], "x1": [1.0, NAN, 3.0]})
    with pytest.raises(InputError) as caught:
        on_spark.summarize([folder, bad], 2, layout="points", part_bytes=1)
    assert str(caught.value).startswith(f"{bad}, row 2 of node 8 has no value in column 'x1'. Fill it in")
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_poisoned_partition_is_named_to_the_user(spark):
    plain = some_nodes("long", n=2000, ids="str")
    columns = columns_of(plain, "long")
    columns["x1"][1500] = NAN
    node = columns["id"][1500]
    with pytest.raises(InputError) as caught:
        on_spark.summarize(frame_of(spark, columns), 2, layout="long")
    said = str(caught.value)
    assert said.startswith("partition ")
    assert f"of node {node!r} has no value in column 'x1'. Fill it in" in said
    assert int(said.partition(", row ")[2].split()[0]) >= 1
    assert "\n" not in said


def test_an_error_that_is_not_ours_stays_as_it_is(spark):
    def fail(batches):
        raise RuntimeError("not ours")

    broken = frame_of(spark, {"x": [1.0, 2.0]}).mapInArrow(fail, "x double")
    with pytest.raises(PythonException, match="not ours"):
        on_spark.summarize(broken, 1)


# -- assignments -------------------------------------------------------------------------------------------------------


def test_assign_is_the_same_as_here(spark):
    plain = some_nodes("nested", n=300, ids="str")
    nodes = as_nodes(plain)
    found = on_spark.assign(frame_of(spark, columns_of(plain, "nested")), CENTERS, **options_of("nested"))
    assert found.columns == ["id", *(name for name, *_ in ASSIGNMENT_COLUMNS)]
    rows = {row.id: row for row in found.collect()}
    assert_array_equal([rows[id].cluster for id in nodes.ids], probi.assign(nodes, CENTERS))
    distances = np.sort(probi.objective.expected_distances(nodes, CENTERS), axis=1)
    assert [rows[id].next_distance for id in nodes.ids] == pytest.approx(distances[:, 1] / nodes.total_probabilities)


def test_assign_is_the_same_for_files(spark, folder):
    nodes = Nodes.concat(list(probi.io.read(folder, layout="points")))
    found = on_spark.assign(folder, CENTERS, layout="points", part_bytes=1)
    rows = found.collect()
    assert {row.file for row in rows} == {str(path) for path in folder.iterdir()}
    assert {row.row for row in rows} == set(range(1, 501))
    clusters = {row.id: row.cluster for row in rows}
    assert_array_equal([clusters[id] for id in nodes.ids], probi.assign(nodes, CENTERS))


def test_assign_is_lazy(spark, folder, tmp_path):
    bad = write(tmp_path / "z.parquet", {"id": [7], "x0": [1.0], "x1": [NAN]})
    files = on_spark.assign([folder, bad], CENTERS, layout="points")
    columns = {"x0": [1.0] * 1500, "x1": [*([1.0] * 1499), NAN]}
    rows = list(zip(*columns.values(), strict=True))
    frame = on_spark.assign(spark.createDataFrame(rows, list(columns)).coalesce(1), CENTERS)
    for found, where in ((files, "row 1 of node 7"), (frame, "partition 0, row 1500")):
        assert found.columns[-1] == "second_probability"
        with pytest.raises(PythonException, match=where):
            found.collect()


def test_assign_knows_groups_by_their_order(spark):
    plain = some_nodes("groups", n=30)
    frame = frame_of(spark, ordered(columns_of(plain, "groups")))
    with pytest.raises(InputError, match="order"):
        on_spark.assign(frame, CENTERS, features=["x0", "x1"], group_size=GROUP)
    found = on_spark.assign(frame, CENTERS, group_size=GROUP, order="place").collect()
    nodes = as_nodes(plain)
    expected = probi.objective.expected_distances(nodes, CENTERS)
    assert Counter(row.cluster for row in found) == Counter(expected.argmin(axis=1).tolist())
    assert sum(row.expected_distance for row in found) == pytest.approx(expected.min(axis=1).sum(), rel=1e-12)


# -- the estimator ----------------------------------------------------------------------------------------------------


def with_notes(plain, columns):
    """The same columns with some that play no role, and the number of each row's node."""
    node = np.repeat(np.arange(len(plain)), [len(node.realizations) for node in plain]).tolist()
    notes = [f"row {i}" for i in range(len(node))]
    return columns | {"note": notes, "more.of it": [{note: i} for i, note in enumerate(notes)]}, node


def test_transform_adds_a_column(spark):
    plain = some_nodes("long", n=200)
    columns, node = with_notes(plain, columns_of(plain, "long"))
    frame = frame_of(spark, columns)
    model = on_spark.SparkPROBI(3, random_state=0, layout="long", n_partitions=2).fit(frame)
    assert_holds(model.summary, as_nodes(plain))
    assert model.centers.shape == (3, 2)
    found = model.transform(frame)
    assert found.columns == [*columns, "prediction"]
    rows = found.collect()
    given = {row.note: tuple(row) for row in frame.collect()}
    assert {row.note: tuple(row)[:-1] for row in rows} == given
    assert len(rows) == len(given)
    labels = probi.assign(as_nodes(plain), model.centers)
    expected = {note: labels[i] for note, i in zip(columns["note"], node, strict=True)}
    assert {row.note: row.prediction for row in rows} == expected
    assert len(set(labels)) == 3
    with pytest.raises(InputError, match="'prediction' already"):
        model.transform(found)
    one_node = model.transform(frame.where(f"id = {plain[0].id}"))  # the other partition is empty
    assert {row.prediction for row in one_node.collect()} == {labels[0]}


def test_outliers_have_no_label(spark):
    rng = np.random.default_rng(0)
    points = np.repeat([[0.0, 0.0], [9.0, 0.0], [500.0, 0.0]], [60, 60, 2], axis=0) + rng.normal(size=(122, 2))
    frame = frame_of(spark, {"id": list(range(122)), "x0": points[:, 0].tolist(), "x1": points[:, 1].tolist()})
    expected = {i: -1 if i >= 120 else int(points[i, 0] < 4.5) for i in range(122)}
    found = on_spark.assign(frame, [[9.0, 0.0], [0.0, 0.0]], outlier_distance=20.0, layout="points").collect()
    assert {row.id: row.cluster for row in found} == expected
    model = on_spark.SparkPROBI(2, outliers=0.02, random_state=0, layout="points").fit(frame)
    labels = {row.id: row.prediction for row in model.transform(frame).collect()}
    assert {i for i, label in labels.items() if label == -1} == {120, 121}
    assert len(set(labels.values())) == 3


def test_it_is_a_stage_of_a_pipeline(spark):
    plain = some_nodes("long", n=60)
    frame = frame_of(spark, columns_of(plain, "long"))
    half = SQLTransformer(statement="SELECT *, x0 / 2 AS y0 FROM __THIS__")
    cluster = on_spark.SparkPROBI(
        2, summary_size=400, random_state=0, layout="long", features=["y0", "x1"], prediction_col="cluster"
    )
    fitted = Pipeline(stages=[half, cluster]).fit(frame)
    rows = fitted.transform(frame).collect()
    nodes = as_nodes(plain)
    nodes = Nodes(nodes.points / [2, 1], nodes.probabilities, nodes.offsets, nodes.weights, nodes.ids)
    model = fitted.stages[1]
    labels = dict(zip(nodes.ids, probi.assign(nodes, model.centers), strict=True))
    assert len(rows) == nodes.n_realizations
    assert all(row.cluster == labels[row.id] for row in rows)
    assert model.result.cost == pytest.approx(expected_cost(nodes, model.centers), rel=1e-9)


def test_rows_of_rejected_nodes_have_no_prediction(spark):
    plain = some_nodes("groups", n=120)
    columns, node = with_notes(plain, columns_of(plain, "groups"))
    bad = {0, 1, 50, len(node) - 1}
    columns["x0"] = [math.inf if i in bad else x for i, x in enumerate(columns["x0"])]
    # The last two rows are no group.
    columns = ordered({name: [*values, *values[:2]] for name, values in columns.items()})
    node += [len(plain), len(plain)]
    columns |= {"note": [f"row {i}" for i in range(len(node))]}
    frame = frame_of(spark, columns)
    model = on_spark.SparkPROBI(2, random_state=0, on_bad="skip", order="place", **options_of("groups")).fit(frame)
    gone = {node[row] for row in bad} | {len(plain)}
    assert model.summary.n_nodes == 120 - len(gone) + 1
    found = {row.note: row.prediction for row in model.transform(frame).collect()}
    labels = probi.assign(as_nodes(plain), model.centers)
    assert found == {f"row {i}": None if at in gone else labels[at] for i, at in enumerate(node)}
