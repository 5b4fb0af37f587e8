"""probi summarize, merge, solve, assign, evaluate, info, convert: against the library called directly."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from commands import error_line, files_of, probi
from numpy.testing import assert_allclose, assert_array_equal
from table_files import as_nodes, assert_same, columns_of, options_of, read_nodes, some_nodes, write

import probi as library
from probi import Nodes, Summary, expected_cost, solve
from probi.cli.results import Results
from probi.io.formats.base import find_sources, open_file
from probi.io.options import MEANING, Options, like_run
from probi.io.transform import Transform
from probi.solver.result import warnings_about
from probi.tables.columns import Columns

N = 3000
PLAIN = some_nodes("long", n=N)
COLUMNS = columns_of(PLAIN, "long")
NODES = as_nodes(PLAIN)
LONG = ("--layout", "long")
CENTERS = {"x0": [-5.0, 5.0, 0.0], "x1": [-5.0, 0.0, 5.0]}
PLACES = np.column_stack(list(CENTERS.values()))


@pytest.fixture(autouse=True)
def no_report(monkeypatch):
    """It takes longest, and has tests of its own."""
    monkeypatch.setattr("probi.cli.results.write_run_report", lambda outcome, path: None)


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "x.parquet", COLUMNS, step=1000)


@pytest.fixture
def summarized(path, tmp_path, capsys):
    """A function that makes a summary of the file, with options."""

    def make(name, *options, inputs=path, k=3):
        out = tmp_path / name
        ran = probi(capsys, "summarize", inputs, "-k", k, *LONG, "--size", 40, "--seed", 5, "-o", out, *options)
        assert ran.code == 0, ran.err
        return out

    return make


# -- summaries --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_summarize_and_solve_are_cluster(path, summarized, tmp_path, capsys):
    summary = summarized("x.probi", "-q")
    options = ("--n-init", 2, "--seed", 5, "-q")
    assert probi(capsys, "solve", summary, "-k", 3, *options, "-o", tmp_path / "a").code == 0
    arguments = ("-k", 3, *LONG, "--size", 40, *options, "-o", tmp_path / "b", "--no-assign")
    assert probi(capsys, "cluster", path, *arguments).code == 0
    solved, clustered = files_of(tmp_path / "a", "result.json"), files_of(tmp_path / "b", "result.json")
    assert set(solved) == {"centers.csv", "centers.parquet", "summary.probi"}
    assert solved == clustered
    assert summary.read_bytes() == solved["summary.probi"]


@pytest.mark.slow
def test_solve_for_several_numbers(summarized, tmp_path, capsys):
    summary = summarized("x.probi", "-q")
    values = probi(capsys, "solve", summary, "-k", "1:3", "--n-init", 1, "--seed", 2, "--json").json
    found = Summary.load(summary)
    costs = [solve(found, k, n_init=1, random_state=2).cost for k in (1, 2, 3)]
    assert [solution["cost"] for solution in values["solutions"]] == costs
    assert values["features"] == ["x0", "x1"]
    assert values["counts"] is None


def test_solve_says_if_there_are_too_few_nodes(tmp_path, capsys):
    path = write(tmp_path / "x.csv", {"x": [1.0, 2.0]})
    probi(capsys, "summarize", path, "-k", 2, "-o", tmp_path / "x.probi", "-q")
    said = error_line(probi(capsys, "solve", tmp_path / "x.probi", "-k", 3, "-q"))
    assert "has 2 nodes, too few" in said
    assert str(tmp_path / "x.probi") in said


@pytest.mark.slow
def test_merge_in_any_order(tmp_path, capsys, summarized):
    parts = []
    for i in range(3):
        columns = {name: values[i * 1500 : (i + 1) * 1500] for name, values in COLUMNS.items()}
        data = write(tmp_path / f"{i}.parquet", columns)
        parts.append(summarized(f"{i}.probi", "--shard", i, "-q", inputs=data))
    merged = set()
    for order in itertools.permutations(parts):
        assert probi(capsys, "merge", *order, "-o", tmp_path / "all.probi", "-q").code == 0
        merged.add((tmp_path / "all.probi").read_bytes())
    (data,) = merged
    summary = Summary.from_bytes(data)
    assert summary.n_nodes == sum(Summary.load(part).n_nodes for part in parts)
    assert summary.about["space"]["features"] == ["x0", "x1"]
    step = probi(capsys, "merge", *parts[:2], "-o", tmp_path / "two.probi", "-q")
    assert step.code == 0
    assert probi(capsys, "merge", tmp_path / "two.probi", parts[2], "-o", tmp_path / "all.probi", "-q").code == 0
    assert (tmp_path / "all.probi").read_bytes() == data


@pytest.mark.slow
@pytest.mark.parametrize("other", [("--scale", "standard"), ("--features", "x0"), ("--features", "x1,x0")])
def test_merge_of_other_spaces_is_refused(summarized, tmp_path, capsys, other):
    a, b = summarized("a.probi", "-q"), summarized("b.probi", "--shard", 1, "-q", *other)
    out = tmp_path / "all.probi"
    said = error_line(probi(capsys, "merge", a, b, "-o", out, "-q"))
    assert said == f"{b} and {a} have different features or scales and cannot be merged."
    assert not out.exists()


@pytest.mark.slow
def test_merge_of_the_same_shard_is_refused(summarized, tmp_path, capsys):
    a, b = summarized("a.probi", "-q"), summarized("b.probi", "-q")
    said = error_line(probi(capsys, "merge", a, b, "-o", tmp_path / "all.probi", "-q"))
    assert said.startswith(f"{b}: Both summaries hold shard 0 of the same seed")
    assert said.endswith("Read one of the parts again with another shard number (--shard).")


def test_summaries_of_cluster_merge(path, tmp_path, capsys):
    options = ("-k", 2, *LONG, "--size", 40, "--n-init", 1, "--no-assign", "-q", "-o")
    for shard in range(2):
        ran = probi(capsys, "cluster", path, "--shard", shard, *options, tmp_path / str(shard))
        assert ran.code == 0, ran.err
    parts = [tmp_path / str(shard) / "summary.probi" for shard in range(2)]
    assert [Summary.load(part).n_retained for part in parts] == [40, 40]  # sealed
    values = probi(capsys, "merge", *parts, "-o", tmp_path / "all.probi", "--json").json
    assert values["n_nodes"] == 2 * N
    assert Summary.load(tmp_path / "all.probi").about["reading"]["layout"] == "long"
    said = error_line(probi(capsys, "cluster", path, *options, tmp_path / "x", "--shard", 1, "--engine", "dask"))
    assert said == "--shard requires --engine local: dask numbers its parts itself."


def test_info_of_a_summary(summarized, capsys):
    path = summarized("x.probi", "-q")
    summary = Summary.load(path)
    values = probi(capsys, "info", path, "--json").json
    assert values == {
        "file": str(path), "kind": "summary", "bytes": path.stat().st_size, "n_nodes": N, "kept": summary.n_retained,
        "n_clusters": 3, "size": 40,
        "preset": "default", "max_realizations": None, "thinning_bound": None, "mass": summary.mass,
        "spread_cost": summary.spread_cost,
        "lower_bound": summary.lower_bound, "n_features": 2, "features": ["x0", "x1"],
    }  # fmt: skip
    text = probi(capsys, "info", path)
    assert "n nodes: 3,000" in text.out.splitlines()
    assert "features: x0, x1" in text.out.splitlines()
    assert text.err == ""


@pytest.mark.parametrize("n_nodes", [0, 5])
def test_info_of_a_window_says_what_reads_it(tmp_path, capsys, n_nodes):
    window = library.Window(10, 3)
    window.update(NODES[:n_nodes], 5)
    window.save(tmp_path / "x.window")
    said = error_line(probi(capsys, "info", tmp_path / "x.window"))
    assert said == f"{tmp_path / 'x.window'}: This is a Window, not a Summary: probi.Window.load reads it."


def test_info_of_a_table(path, capsys):
    values = probi(capsys, "info", path, *LONG, "--json").json
    assert (values["files"], values["layout"]) == ([str(path)], "long")
    assert (values["features"], values["ids"]) == (["x0", "x1"], ["id"])
    text = probi(capsys, "info", path, *LONG)
    assert "probability: probability" in text.out.splitlines()


def test_info_counts_rows_where_the_files_tell(path, tmp_path, capsys):
    n_rows = len(COLUMNS["id"])
    assert probi(capsys, "info", path, *LONG, "--json").json["n_rows"] == n_rows
    write(tmp_path / "y.parquet", COLUMNS)
    assert probi(capsys, "info", tmp_path, *LONG, "--json").json["n_rows"] == 2 * n_rows
    assert f"n rows: {n_rows:,}" in probi(capsys, "info", path, *LONG).out.splitlines()
    text = write(tmp_path / "z.csv", {"x": [1.0, 2.0]})
    assert probi(capsys, "info", text, "--json").json["n_rows"] is None
    assert "n rows" not in probi(capsys, "info", text).out


def test_info_of_a_results_folder_is_that_of_its_summary(tmp_path, capsys):
    out = plain_run(tmp_path, capsys, {"x": [1.0, 2.0, 9.0]})
    found = probi(capsys, "info", out, "--json").json
    assert (found["kind"], found["n_nodes"]) == ("summary", 3)
    assert found == probi(capsys, "info", out / "summary.probi", "--json").json


# -- centers ----------------------------------------------------------------------------------------------------------


def test_evaluate_files_exactly(path, tmp_path, capsys):
    centers = write(tmp_path / "centers.csv", CENTERS)
    values = probi(capsys, "evaluate", path, *LONG, "--centers", centers, "--json").json
    assert values["n_nodes"] == N
    assert values["cost"] == pytest.approx(expected_cost(NODES, PLACES), rel=1e-12)
    assert values["standard_error"] == 0.0


def test_evaluate_a_summary_with_an_error_bar(summarized, tmp_path, capsys):
    summary, centers = summarized("x.probi", "-q"), write(tmp_path / "centers.csv", CENTERS)
    values = probi(capsys, "evaluate", summary, "--centers", centers, "--json").json
    evaluation = Summary.load(summary).evaluate(PLACES)
    assert (values["cost"], values["standard_error"]) == (evaluation.cost, evaluation.standard_error)
    assert values["standard_error"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["centers.csv", "centers.parquet", "."])
def test_centers_are_in_the_space_of_what_they_are_evaluated_on(path, summarized, tmp_path, capsys, name):
    """Centers of a run with scales, as any of its files, on its summary, on its data, on a summary without scales."""
    out = tmp_path / "out"
    options = ("-k", 3, *LONG, "--size", 40, "--seed", 5, "--scale", "standard", "-o", out, "--json", "-q")
    run = probi(capsys, "cluster", path, *options).json
    on_summary = probi(capsys, "evaluate", out / "summary.probi", "--centers", out / name, "--json").json
    assert on_summary["cost"] == pytest.approx(run["cost"], rel=1e-9)
    for options in ((), LONG, ("--scale", out / "result.json"), ("--id", "id", "--features", "x*")):
        on_data = probi(capsys, "evaluate", path, "--centers", out / name, *options, "--json").json
        assert on_data["cost"] == run["solutions"][0]["exact_cost"]
    plain = summarized("plain.probi", "-q")
    inverse = np.column_stack([pq.read_table(out / "centers.parquet")[name] for name in ("x0", "x1")])
    on_plain = probi(capsys, "evaluate", plain, "--centers", out / name, "--json").json
    assert on_plain["cost"] == pytest.approx(Summary.load(plain).evaluate(inverse).cost, rel=1e-9)


def test_evaluate_a_summary_with_other_features(summarized, tmp_path, capsys):
    summary, centers = summarized("x.probi", "-q"), write(tmp_path / "centers.csv", {"y": [1.0], "x0": [1.0]})
    said = error_line(probi(capsys, "evaluate", summary, "--centers", centers, "-q"))
    assert said == f"The centers have the features y, x0, but {summary} has x0, x1."


def test_evaluate_longitude_and_latitude(tmp_path, capsys):
    columns = {"lon": [10.0, 10.2, 90.0], "lat": [0.0, 0.0, 0.0]}
    path, out = write(tmp_path / "x.csv", columns), tmp_path / "out"
    run = probi(capsys, "cluster", path, "-k", 2, "--lonlat", "lon,lat", "-o", out, "--json").json
    for inputs, name, options in [
        (path, ".", ()),
        (path, "centers.csv", ()),
        (path, "centers.csv", ("--lonlat", "lon,lat")),
        (out / "summary.probi", ".", ()),
        (out / "summary.probi", "centers.csv", ()),
    ]:
        values = probi(capsys, "evaluate", inputs, "--centers", out / name, *options, "--json").json
        assert values["cost"] == pytest.approx(run["cost"], rel=1e-6)


@pytest.mark.parametrize(("scale", "name"), [("standard", "centers.csv"), ("robust", "centers.csv"), ("standard", ".")])
def test_scales_that_would_not_be_those_of_the_centers(path, tmp_path, capsys, scale, name):
    out = tmp_path / "out"
    probi(capsys, "cluster", path, "-k", 2, *LONG, "-o", out, "-q", "--no-assign", "--n-init", 1)
    said = error_line(probi(capsys, "evaluate", path, *LONG, "--centers", out / name, "--scale", scale, "-q"))
    assert "--scale" in said


def test_assign(path, tmp_path, capsys):
    centers, out = write(tmp_path / "centers.csv", CENTERS), tmp_path / "a.parquet"
    values = probi(capsys, "assign", path, *LONG, "--centers", centers, "-o", out, "--json").json
    table, labels = pq.read_table(out), library.assign(NODES, PLACES)
    assert_array_equal(table["cluster"], labels)
    assert_array_equal(table["id"], NODES.ids)
    assert values["counts"] == np.bincount(labels).tolist()
    assert values["cost"] == pytest.approx(expected_cost(NODES, PLACES), rel=1e-12)
    assert values["file"] == str(out)


@pytest.mark.slow
def test_assign_is_the_second_pass_of_cluster(path, tmp_path, capsys):
    out = tmp_path / "out"
    options = ("-k", "2,3", *LONG, "--size", 40, "--n-init", 1, "-o", out, "-q", "--scale", "robust")
    assert probi(capsys, "cluster", path, *options).code == 0
    for k in (2, 3):
        arguments = ("--centers", out, "-k", k, "-o", tmp_path / "a.parquet", "-q")
        assert probi(capsys, "assign", path, *LONG, *arguments).code == 0
        alone, together = pq.read_table(tmp_path / "a.parquet"), pq.read_table(out / "assignment.parquet")
        assert_array_equal(alone["cluster"], together[f"cluster_{k}"])
        assert_array_equal(alone["next_distance"], together[f"next_distance_{k}"])
    arguments = ("--centers", out, "-o", tmp_path / "a.parquet", "-q")
    assert "has centers for 2, 3 clusters. Choose with -k." in error_line(probi(capsys, "assign", path, *arguments))
    said = error_line(probi(capsys, "assign", path, "-k", 4, *arguments))
    assert "has no centers for 4 clusters, but for 2, 3." in said


def test_assign_where_a_column_holds_points(tmp_path, capsys):
    plain = some_nodes("nested", n=50)
    path, out = write(tmp_path / "x.parquet", columns_of(plain, "nested")), tmp_path / "out"
    assert probi(capsys, "cluster", path, "-k", 2, "-o", out, "-q", "--n-init", 1).code == 0
    ran = probi(capsys, "assign", path, "--centers", out, "-o", tmp_path / "a.parquet", "-q")
    assert ran.code == 0, ran.err
    assert pq.read_table(tmp_path / "a.parquet") == pq.read_table(out / "assignment.parquet")


def plain_run(tmp_path, capsys, columns, *options):
    """Results of a run on a file of its own."""
    path = write(tmp_path / "old.parquet", columns)
    ran = probi(capsys, "cluster", path, "-k", 2, "--n-init", 1, "-q", "-o", tmp_path / "out", *options)
    assert ran.code == 0, ran.err
    return tmp_path / "out"


GPS = {
    "trip": [1, 1, 2, 2, 3, 3, 4, 4], "lon": [10.0, 10.1, 10.2, 10.3, 60.0, 60.1, 60.2, 60.3],
    "lat": [50.0, 50.1, 50.2, 50.3, 20.0, 20.1, 20.2, 20.3], "share": [0.25, 0.75] * 4,
}  # fmt: skip
TRIPS = ("--layout", "long", "--id", "trip", "--probability", "share", "--lonlat", "lon,lat")


@pytest.mark.parametrize("name", [".", "centers.parquet", "centers.csv"])
def test_files_are_read_as_the_run_of_the_centers_read_its_own(tmp_path, capsys, name):
    out = plain_run(tmp_path, capsys, GPS, *TRIPS)
    values = json.loads((out / "result.json").read_text())
    assert values["reading"] == {
        "layout": "long", "group_size": None, "features": ["lon", "lat"], "id": ["trip"], "probability": "share",
        "weight": None, "lonlat": ["lon", "lat"], "probabilities": "keep", "id_per_file": False, "missing": "error",
        "on_bad": "stop", "max_bad": 0.1, "gather": False, "decimal": None, "max_node_rows": 100_000,
    }  # fmt: skip
    assert pq.read_table(out / "assignment.parquet")["trip"].to_pylist() == [1, 2, 3, 4]
    for options in ((), TRIPS):
        arguments = ("--centers", out / name, "-o", tmp_path / "a.parquet", "-q", *options)
        assert probi(capsys, "assign", tmp_path / "old.parquet", *arguments).code == 0
        assert pq.read_table(tmp_path / "a.parquet") == pq.read_table(out / "assignment.parquet")
    # A summary hands it on to the centers that are found for it.
    again = tmp_path / "again"
    assert probi(capsys, "solve", out / "summary.probi", "-k", 2, "--n-init", 1, "-q", "-o", again).code == 0
    assert (again / "centers.parquet").read_bytes() == (out / "centers.parquet").read_bytes()
    new = write(tmp_path / "new.csv", GPS | {"trip": [7, 7, 8, 8, 9, 9, 10, 10]})
    assert probi(capsys, "check", new, "--like", out, "--json").json["counts"]["nodes"] == 4
    assert probi(capsys, "convert", new, "--like", out, "-o", tmp_path / "n.csv", "-q", "--json").json["n_nodes"] == 4


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--layout", "points"), "--layout is points, but the run in {} had long. "),
        (("--group-size", "2"), "--group-size is 2, but the run in {} had none. "),
        (("--id", "lat"), "--id is lat, but the run in {} had trip. "),
        (("--probability", "lat"), "--probability is lat, but the run in {} had share. "),
        (("--weight", "share"), "--weight is share, but the run in {} had none. "),
        (("--features", "lat,lon"), "{new} would be read with features lat,lon, but the run in {} had lon,lat. "),
        (("--lonlat", "lat,lon"), "--lonlat is lat,lon, but the run in {} had lon,lat. "),
    ],
)
def test_an_option_that_contradicts_the_run_of_the_centers(tmp_path, capsys, options, says):
    out, new = plain_run(tmp_path, capsys, GPS, *TRIPS), tmp_path / "old.parquet"
    for command in ("evaluate", "check"):
        results = ("--centers", out) if command == "evaluate" else ("--like", out)
        said = error_line(probi(capsys, command, new, *results, "-q", *options))
        assert said.startswith(says.format(out, new=new)), said


def test_rows_are_handled_as_in_the_run_of_the_centers(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    path.write_text("id;x\na;0,5\nb;8,5\na;1,5\nb;\nc;red\nd;4,5\n")
    options = ("--decimal", ",", "--gather", "--missing", "absent", "--on-bad", "skip", "--max-bad", "0.5")
    out = tmp_path / "out"
    first = probi(capsys, "cluster", path, "--layout", "long", "-k", 2, "--n-init", 1, "-q", "-o", out, *options)
    assert first.code == 0, first.err
    found = pq.read_table(out / "assignment.parquet")
    assert found["id"].to_pylist() == ["a", "b", "d"]
    for name in (".", "centers.csv"):
        ran = probi(capsys, "assign", path, "--centers", out / name, "-o", tmp_path / "a.parquet", "-q")
        assert ran.code == 0, ran.err
        assert pq.read_table(tmp_path / "a.parquet") == found
    # What is said now counts.
    arguments = ("evaluate", path, "--centers", out, "-q")
    assert probi(capsys, *arguments, "--missing", "skip-node", "--json").json["n_nodes"] == 2
    assert "the decimal sign" in error_line(probi(capsys, *arguments, "--delimiter", ","))
    # Results of older versions do not say it.
    meant = json.loads((out / "result.json").read_text())["reading"]
    old = {name: meant[name] for name in MEANING}
    assert (like_run(Options(), meant, "out").missing, like_run(Options(), old, "out").missing) == ("absent", "error")


def test_a_summary_has_no_centers_yet(summarized, path, tmp_path, capsys):
    week = summarized("week.probi")
    for command in (("assign", "-o", tmp_path / "a.csv"), ("evaluate",)):
        said = error_line(probi(capsys, *command, path, "--centers", week, "-q"))
        assert said.startswith(f"{week} is a summary, which has no centers yet. First run probi solve ")
    binary = tmp_path / "centers.npy"
    np.save(binary, PLACES)
    said = error_line(probi(capsys, "evaluate", path, "--centers", binary, "-q"))
    assert said == f"{binary}: centers cannot be read: it is neither text nor called .parquet."


def test_numbers_below_a_million_have_no_exponent(capsys):
    summary = Summary(1, random_state=0)
    summary.update(Nodes.from_points([[0.0], [400_000.0]]))
    found = replace(solve(summary, 1, random_state=0), standard_error=341.0).of_source(summary)
    Results(summary, Transform(("x",)), [found, found], {}, {}).show()
    shown = capsys.readouterr().out
    assert "cost 400,000 ± 340" in shown
    assert "e+" not in shown
    (message,) = warnings_about(replace(found, cost=800_000.0))
    assert "± 340, and" in message


def test_decimal_commas_in_files_for_centers(tmp_path, capsys):
    out = plain_run(tmp_path, capsys, {"x": [1.0, 2.0, 9.0]})
    (tmp_path / "new.csv").write_text("x;n\n1,5;a\n2,5;b\n")
    said = error_line(probi(capsys, "evaluate", tmp_path / "new.csv", "--centers", out, "-q"))
    assert said.endswith("holds '1,5': if that is a decimal comma, pass --decimal ','.")
    assert probi(capsys, "evaluate", tmp_path / "new.csv", "--centers", out, "-q", "--decimal", ",").code == 0


def test_ids_that_are_only_names_may_be_missing_or_others(tmp_path, capsys):
    out = plain_run(tmp_path, capsys, {"id": [1, 2, 3], "x": [1.0, 2.0, 9.0]})
    new = write(tmp_path / "new.csv", {"who": ["a", "b"], "x": [1.0, 9.0]})
    for options, names in (((), []), (("--id", "who"), ["who"])):
        ran = probi(capsys, "assign", new, "--centers", out, "-o", tmp_path / "a.parquet", "-q", *options)
        assert ran.code == 0, ran.err
        assert pq.read_table(tmp_path / "a.parquet").column_names[1:-8] == names


def test_columns_that_a_run_did_not_have_are_not_guessed(tmp_path, capsys):
    out = plain_run(tmp_path, capsys, {"x": [1.0, 2.0, 9.0]})
    new = write(tmp_path / "new.csv", {"x": [1.0, 2.0, 9.0], "weight": [70, 80, 60]})
    assert probi(capsys, "evaluate", new, "--centers", out, "--json", "-q").json["cost"] == 1.0
    named = write(tmp_path / "named.csv", {"id": ["a", "b", "c"], "x": [1.0, 2.0, 9.0]})
    for options, column in (((), "id"), (("--id", "none"), "row")):
        probi(capsys, "assign", named, "--centers", out, *options, "-o", tmp_path / "a.csv", "-q")
        assert ("id" in (tmp_path / "a.csv").read_text().splitlines()[0].split(",")) == (column == "id")
    said = error_line(probi(capsys, "evaluate", new, "--centers", out, "--weight", "weight", "-q"))
    assert said.startswith(f"--weight is weight, but the run in {out} had none. ")


def test_centers_in_degrees_without_their_run(tmp_path, capsys):
    out = plain_run(tmp_path, capsys, GPS, *TRIPS)
    (tmp_path / "mine.csv").write_bytes((out / "centers.csv").read_bytes())
    arguments = ("evaluate", tmp_path / "old.parquet", *TRIPS[:-2], "--centers", tmp_path / "mine.csv", "-q")
    said = error_line(probi(capsys, *arguments))
    assert "has the columns lon and lat, but does not record how distances were measured" in said
    assert said.endswith("--lonlat lon,lat.")
    assert probi(capsys, *arguments, "--lonlat", "lon,lat").code == 0
    # Moved by hand: the space is still that of the folder.
    table = (out / "centers.csv").read_text().splitlines()
    (out / "centers.csv").write_text("\n".join(table[:2] + table[1:2]))
    moved = probi(capsys, "evaluate", tmp_path / "old.parquet", "--centers", out / "centers.csv", "--json", "-q").json
    assert moved["cost"] > 1000.0  # kilometres


def test_assign_takes_the_features_of_the_centers(path, tmp_path, capsys):
    centers = write(tmp_path / "centers.csv", {"x1": [-5.0, 5.0]})
    values = probi(capsys, "evaluate", path, *LONG, "--centers", centers, "--json").json
    one = NODES.with_points(NODES.points[:, 1:])
    assert values["cost"] == pytest.approx(expected_cost(one, [[-5.0], [5.0]]), rel=1e-12)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.arrow", "a.parquet"])
def test_the_ending_says_the_format_of_an_assignment(tmp_path, capsys, name):
    paths = [write(tmp_path / f"{i}.csv", {"id": ["a", "b"], "x": [1.0 + i, 9.0 + i]}) for i in range(2)]
    centers = write(tmp_path / "centers.csv", {"x": [0.0, 10.0]})
    out = tmp_path / name
    assert probi(capsys, "assign", *paths, "--centers", centers, "-o", out, "-q").code == 0
    assert probi(capsys, "assign", *paths, "--centers", centers, "-o", tmp_path / "b.parquet", "-q").code == 0
    file, expected = open_file(find_sources(out, None)[0]), pq.read_table(tmp_path / "b.parquet")
    assert file.schema.names == expected.column_names
    columns = Columns("points", tuple(expected.column_names))
    assert [row for chunk in file.chunks(columns, 0) for row in chunk.table.to_pylist()] == expected.to_pylist()
    assert (b"row\tid" in out.read_bytes()) == (name == "a.tsv")


@pytest.mark.parametrize("name", ["a.xlsx", "a.npy", "a"])
def test_an_ending_without_a_format_is_refused_before_anything_is_read(tmp_path, capsys, name):
    for command in ("assign", "convert") if name != "a.npy" else ("assign",):
        centers = ("--centers", tmp_path / "missing") if command == "assign" else ()
        said = error_line(probi(capsys, command, tmp_path / "missing.csv", *centers, "-o", tmp_path / name, "-q"))
        assert said.startswith(f"Cannot infer a format for {tmp_path / name}; use one of .parquet")
        assert (".npy" in said.split(";")[1]) == (command == "convert")


# -- convert ----------------------------------------------------------------------------------------------------------

# From any layout to those that hold all of it: "points" and "groups" have no probabilities.
WAYS = [
    (first, to)
    for first in ("points", "groups", "long", "nested", "nested columns")
    for to in ("points", "groups", "long", "nested")
    if to in ("long", "nested") or to == first
]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["parquet", "csv", "csv.gz", "arrow"])
@pytest.mark.parametrize(("first", "layout"), WAYS)
def test_convert_there_and_back(tmp_path, capsys, first, layout, format):
    plain = some_nodes(first, n=30)
    start = write(tmp_path / "x.parquet", columns_of(plain, first))
    options = options_of(layout)
    converted = tmp_path / f"y.{format}"
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options_of(first).items()]
    values = probi(capsys, "convert", start, *arguments, "--to", layout, "-o", converted, "--json").json
    assert (values["n_nodes"], values["file"], values["rows"]["nodes"]) == (30, str(converted), 30)
    expected = as_nodes(plain)
    if expected.ids is None and layout == "long":  # numbers, as rows of a node must share something
        expected = Nodes(
            expected.points, expected.probabilities, expected.offsets, expected.weights, np.arange(30)
        )  # fmt: skip
    assert_same(read_nodes(converted, **options), expected)
    back = tmp_path / "z.parquet"
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    to = first.partition(" ")[0]
    assert probi(capsys, "convert", converted, *arguments, "--to", to, "-o", back, "-q").code == 0
    assert_same(read_nodes(back, **options_of(to)), expected)


@pytest.mark.parametrize("command", ["convert", "assign", "evaluate"])
def test_rows_that_are_left_out_are_counted_by_each_command(tmp_path, capsys, command):
    path = tmp_path / "x.csv"
    path.write_text("x0,x1\n1,2\nred,4\n5,\n7,8\n9,inf\n")
    write(tmp_path / "centers.csv", CENTERS)
    options = {
        "convert": ("-o", tmp_path / "y.parquet"),
        "assign": ("--centers", tmp_path / "centers.csv", "-o", tmp_path / "y.parquet"),
        "evaluate": ("--centers", tmp_path / "centers.csv"),
    }[command]
    skipping = ("--on-bad", "skip", "--missing", "skip-row", "--max-bad", "0.6", *options)
    said = probi(capsys, command, path, *skipping)
    assert said.code == 0
    kinds = {"infinite in column 'x1'": 1, "no value in column 'x1'": 1, "not a number in column 'x0'": 1}
    assert f"Left out 3 of 5 rows: {', '.join(f'1 {kind}' for kind in kinds)}." in said.err
    assert "Left out" not in probi(capsys, command, path, "-q", *skipping).err
    values = probi(capsys, command, path, "--json", *skipping).json
    counts = {"rows": 5, "nodes": 2, "used": 2, "missing": 1, "rejected": 2, "incomplete": 0, "absent": 0}
    assert values["rows"] == counts | {"left_out": kinds, "normalized": 0}
    # More than a tenth is a mistake, unless it is allowed; nothing is written then.
    (tmp_path / "y.parquet").unlink(missing_ok=True)
    stopped = error_line(probi(capsys, command, path, "-q", *skipping[:4], *options))
    assert "3 of 5 rows (60.0%) were left out, more than 10%: 1 infinite in column 'x1', 1 no value" in stopped
    assert "allow it with --max-bad 0.6." in stopped
    assert not (tmp_path / "y.parquet").exists()


@pytest.mark.parametrize("layout", ["points", "groups", "nested"])
def test_convert_to_npy(tmp_path, capsys, layout):
    shape = (20, 2) if layout == "points" else (20, 3, 2)
    points = np.random.default_rng(0).normal(size=shape)
    np.save(tmp_path / "x.npy", points)
    out = tmp_path / "y.npy"
    values = probi(capsys, "convert", tmp_path / "x.npy", "--to", layout, "-o", out, "--json").json
    assert values["n_nodes"] == 20
    assert_array_equal(np.load(out), points.reshape(60, 2) if layout == "groups" else points)


@pytest.mark.parametrize("weights", [[1.0] * 40 + [2.0] * 40, [2.0] * 40 + [1.0] * 40])
@pytest.mark.parametrize("layout", ["points", "long", "nested"])
def test_weights_that_begin_or_end_late_are_kept(tmp_path, capsys, monkeypatch, layout, weights):
    monkeypatch.setattr("probi.io.formats.base.MAX_ROWS", 10)
    path = write(tmp_path / "x.parquet", {"x": np.arange(80.0), "weight": weights})
    for file in ("y.parquet", "y.csv"):
        options = ("--weight", "weight", "--to", layout, "-o", tmp_path / file, "-q")
        assert probi(capsys, "convert", path, *options).code == 0
        found = read_nodes(tmp_path / file, **options_of(layout))
        assert_array_equal(found.weights, weights)
        assert (found.ids is not None) == (layout == "long")


def test_what_cannot_be_converted_says_so(tmp_path, capsys):
    path = write(tmp_path / "x.csv", columns_of(some_nodes("long"), "long"))
    points = write(tmp_path / "p.csv", {"x": [1.0, 2.0], "weight": [1.0, 2.0]})
    for inputs, output, options, says in [
        (path, "y.xlsx", ("--to", "long"), "Cannot infer a format for"),
        (path, "y.csv", ("--to", "points"), "do not fit the layout 'points'"),
        (path, "y.csv", ("--to", "groups"), "do not fit the layout 'groups'"),
        (path, "y.npy", ("--to", "long"), "NPY holds numbers only"),
        (points, "y.npy", ("--to", "points"), "these nodes have weights"),
        (path, "y.csv", ("--scale", "standard"), "neither --scale nor --lonlat"),
        (path, "y.csv", ("--lonlat", "x0,x1"), "neither --scale nor --lonlat"),
    ]:
        layout = LONG if inputs == path else ("--weight", "weight")
        assert says in error_line(probi(capsys, "convert", inputs, *layout, *options, "-o", tmp_path / output, "-q"))
        assert not (tmp_path / output).exists()


def test_a_failed_command_leaves_the_old_file(tmp_path, capsys):
    path = write(tmp_path / "x.csv", {"x": [1.0] * 50 + ["red"]})
    (tmp_path / "y.csv").write_text("old")
    assert "row 51" in error_line(probi(capsys, "convert", path, "-o", tmp_path / "y.csv", "-q"))
    assert (tmp_path / "y.csv").read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.csv", "y.csv"]


def test_outputs_in_places_that_are_not_there(path, tmp_path, capsys):
    for name in ("no/where/x.probi", "x.parquet/x.probi"):
        ran = probi(capsys, "summarize", path, "-k", 2, *LONG, "-o", tmp_path / name, "-q")
        assert error_line(ran).startswith(f"{tmp_path / name}: ")
    (tmp_path / "folder").mkdir()
    said = error_line(probi(capsys, "summarize", path, "-k", 2, *LONG, "-o", tmp_path / "folder", "-q"))
    assert said == f"{tmp_path / 'folder'}: Is a directory."


@pytest.mark.slow
def test_costs_of_solve_are_those_of_evaluate(summarized, tmp_path, capsys):
    summary = summarized("x.probi", "-q")
    solved = probi(capsys, "solve", summary, "-k", 3, "-o", tmp_path / "out", "--json", "-q").json
    evaluated = probi(capsys, "evaluate", summary, "--centers", tmp_path / "out", "--json").json
    assert_allclose(evaluated["cost"], solved["cost"], rtol=1e-12)
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == solved


# -- what would be read as something else ------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("assign", "--centers"), ("convert",), ("summarize", "-k", "2")])
def test_an_input_is_not_overwritten(tmp_path, capsys, command):
    out = plain_run(tmp_path, capsys, {"x": [1.0, 2.0, 9.0]})
    data = write(tmp_path / "data.csv", {"x": [1.0, 2.0, 9.0]})
    (tmp_path / "link.csv").symlink_to(data)
    before = data.read_bytes()
    for output in (data, tmp_path / "link.csv"):
        centers = [out] if command[-1] == "--centers" else []
        said = error_line(probi(capsys, command[0], data, *command[1:], *centers, "-o", output, "-q"))
        assert said.startswith(f"{output} is an input and would be overwritten by the result. Use another name (-o")
    assert data.read_bytes() == before


def test_a_summary_is_no_table(tmp_path, capsys):
    data = write(tmp_path / "data.csv", {"x": [1.0, 2.0, 9.0]})
    assert probi(capsys, "summarize", data, "-k", 2, "-o", tmp_path / "s.arrow", "-q").code == 0
    said = error_line(probi(capsys, "cluster", tmp_path / "s.arrow", "-k", 2, "-q"))
    assert "this is a summary, not a table of nodes. Use probi solve" in said


def test_ids_that_start_anew_are_not_gathered_without_a_word(tmp_path, capsys):
    for day in (1, 2):
        write(tmp_path / f"{day}.csv", {"id": ["a", "b", "a"], "x": [0.0, 5.0, float(day)]})
    arguments = ("cluster", tmp_path, "--layout", "long", "-k", 2, "--gather")
    assert "Note: the rows of 2 nodes were gathered from several files." in probi(capsys, *arguments).err
    assert "gathered" not in probi(capsys, *arguments, "--id-per-file").err


def test_latitude_first_is_noticed(tmp_path, capsys):
    data = write(tmp_path / "data.csv", {"lon": [1.0, 2.0], "lat": [3.0, 4.0]})
    said = error_line(probi(capsys, "cluster", data, "-k", 1, "--lonlat", "lat,lon", "-q"))
    assert said.endswith("lonlat is lat,lon, but longitude comes first: lon,lat.")
