"""Which column plays which role: what is guessed, what is told, what is an error."""

import pyarrow as pa
import pytest

from probi.errors import InputError
from probi.tables.columns import choose_columns

F, N, S, B = pa.float64(), pa.int64(), pa.string(), pa.bool_()
L = pa.list_(F)
P = pa.list_(pa.list_(F, 3))


def choose(columns, layout=None, **options):
    return choose_columns(pa.schema(list(columns.items())), layout, **options)


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"x": F, "y": N}, {}, "layout points (each row a certain node); 2 features (x, y)"),
        (
            {"x": F, "ok": B, "d": pa.decimal128(5)},
            {},
            "layout points (each row a certain node); 3 features (x, ok, d)",
        ),
        (
            {"id": S, "x": F, "weight": F, "name": S},
            {"weight": "weight"},
            "layout points (each row a certain node); 1 feature (x); id id; weight weight; left out: name",
        ),
        ({"id": S, "x": F, "p": F}, {}, "layout long (rows of a node share id); 1 feature (x); probability p"),
        (
            {"id": S, "x": F, "p": F},
            {"group_size": 4},
            "layout groups (4 rows per node); 2 features (x, p); id id",
        ),
        (
            {"node": N, "x": F},
            {"layout": "long"},
            "layout long (rows of a node share node); 1 feature (x)",
        ),
        (
            {"u": N, "v": N, "x": F, "q": F},
            {"id": ["u", "v"], "probability": "q"},
            "layout long (rows of a node share u, v); 1 feature (x); probability q",
        ),
        (
            {"points": P, "prob": L, "weights": F, "note": S},
            {},
            "layout nested (each row a node with lists); 3 features (x0, x1, x2); probability prob; weight weights; "
            "left out: note",
        ),
        ({"x": L, "y": L, "z": F}, {}, "layout nested (each row a node with lists); 2 features (x, y); left out: z"),
        (
            {f"x{j}": F for j in range(9)},
            {},
            "layout points (each row a certain node); 9 features (x0, x1, x2, x3, ... x8)",
        ),
    ],
)
def test_guesses_and_what_is_told(columns, options, said):
    assert str(choose(columns, **options)) == said


@pytest.mark.parametrize("name", ["id", "ID", "Node", "node_id", "NodeId", "key"])
def test_names_of_ids(name):
    assert choose({"x": F, name: S}, "long").ids == (name,)


def test_one_id_is_guessed_in_the_order_of_the_list():
    chosen = choose({"key": N, "node": N, "x": F}, "long")
    assert chosen.ids == ("node",)
    assert chosen.features == ("key", "x")


@pytest.mark.parametrize("name", ["probability", "Probabilities", "prob", "P"])
def test_names_of_probabilities(name):
    assert choose({"id": N, "x": F, name: F}).probability == name
    assert choose({"id": N, "x": F, name: F}).layout == "long"


@pytest.mark.parametrize("name", ["weight", "Weights"])
def test_names_of_weights(name):
    assert choose({"id": N, "x": F, "p": F, name: F}).weight == name
    assert choose({"x": L, name: F}).weight == name
    assert choose({"x": F, name: F}, group_size=2).weight is None


@pytest.mark.parametrize(
    "columns", [{"height": F, "weight": F, "age": F}, {"id": N, "height": F, "weight": F}], ids=["points", "with ids"]
)
@pytest.mark.parametrize("layout", [None, "points", "long"])
def test_a_weight_that_may_be_a_feature_is_asked_for(columns, layout):
    columns = {"id": N} | columns if layout == "long" else columns
    with pytest.raises(InputError, match=r"weight='weight' \(--weight weight\), or weight=False \(--weight none\)"):
        choose(columns, layout)
    assert "weight" in choose(columns, layout, weight=False).features
    assert choose(columns, layout, weight="weight").weight == "weight"


def test_false_means_that_no_column_has_the_role():
    columns = {"id": N, "x": F, "p": F, "weight": F}
    chosen = choose(columns, id=False, probability=False, weight=False)
    assert (chosen.layout, chosen.features, chosen.ids) == ("points", ("id", "x", "p", "weight"), ())
    assert (chosen.probability, chosen.weight) == (None, None)
    assert choose(columns, "long", probability=False, weight=False).features == ("x", "p", "weight")
    with pytest.raises(InputError, match=r'^The layout "long" needs an id, .*--id COLUMN.*--layout points\)\.$'):
        choose(columns, "long", id=False)


@pytest.mark.parametrize("name", ["member", "Realization", "draw", "number", "imputation", ".imp"])
def test_numbers_of_realizations_are_no_features(name):
    columns = {"id": N, name: N, "x": F}
    assert choose(columns, "long").features == ("x",)
    assert choose(columns, "long").left_out == (name,)
    assert choose(columns, group_size=5).features == ("x",)
    assert choose(columns, "points").features == (name, "x")
    assert choose(columns, features=["*"]).features == (name, "x")
    with pytest.raises(InputError, match=rf"'{name}' number the realizations .* layout=\"long\" with an id"):
        choose(columns)


def test_degrees():
    assert choose({"lat": F, "Longitude": F, "z": F}).degrees == ("Longitude", "lat")
    assert choose({"lat": F, "y": F}).degrees is None


def test_features_that_are_named_play_no_other_role():
    chosen = choose({"id": N, "x": F, "weight": F, "p": F}, features=["weight", "id"])
    assert (chosen.layout, chosen.features, chosen.ids, chosen.weight) == ("points", ("weight", "id"), (), None)
    assert chosen.left_out == ("x", "p")


def test_what_is_named_for_a_role_is_guessed_for_no_other():
    chosen = choose({"p": N, "id": N, "x": F}, "long", id="p")
    assert (chosen.ids, chosen.probability, chosen.features) == (("p",), None, ("id", "x"))


def test_patterns_in_the_order_of_the_list_each_column_once():
    columns = {"WAP2": F, "WAP1": F, "lon": F, "wap3": F, "id": N}
    chosen = choose(columns, features=["lon", "WAP*", "WAP1"])
    assert chosen.features == ("lon", "WAP2", "WAP1")
    assert choose(columns, features=["*"], id="id").features == ("WAP2", "WAP1", "lon", "wap3")


@pytest.mark.parametrize("layout", [None, "long"])
def test_a_pattern_takes_no_column_that_has_another_role(layout):
    columns = {"id": N, "x": F, "y": F, "p": F, "weight": F}
    chosen = choose(columns, layout, features=["*"])
    assert chosen == choose(columns, layout)
    assert (chosen.layout, chosen.ids, chosen.features, chosen.probability) == ("long", ("id",), ("x", "y"), "p")
    chosen = choose(columns, layout, features=["*", "p"], weight="weight")  # said by its name
    assert (chosen.features, chosen.probability) == (("x", "y", "p"), None)


def test_a_name_is_taken_as_it_is_before_it_is_a_pattern():
    assert choose({"a[1]": F, "a1": F}, features=["a[1]"]).features == ("a[1]",)


def test_index_columns_of_pandas_are_no_features_unless_named():
    columns = {"__index_level_0__": N, "x": F}
    assert choose(columns).features == ("x",)
    assert choose(columns).left_out == ()  # nothing that anyone would miss
    assert choose(columns, features=["__index_level_0__"]).features == ("__index_level_0__",)


def test_a_column_called_points_comes_before_other_lists_of_lists():
    assert choose({"track": P, "Points": P}).points == "Points"
    assert choose({"track": P, "points": P}, features=["track"]).points == "track"


def test_the_number_of_features_is_that_of_the_first_point():
    columns = {"points": pa.list_(pa.list_(F))}
    first = pa.table({"points": pa.array([None, [], [[1.0, 2.0]]], columns["points"])})
    assert choose(columns, first=lambda: first).features == ("x0", "x1")
    with pytest.raises(InputError, match="'points' holds no points"):
        choose(columns, first=lambda: first.slice(0, 2))
    with pytest.raises(InputError, match="'points' holds no points"):
        choose(columns)


def test_columns_to_read():
    assert choose({"w": F, "x": F, "p": F, "id": N, "n": S}, weight="w").used == ["id", "x", "p", "w"]
    assert choose({"points": P, "p": L, "n": S}).used == ["points", "p"]


@pytest.mark.parametrize(
    ("columns", "layout", "options", "match"),
    [
        ({"x": F}, "wide", {}, "no layout 'wide': choose one of points, groups, long, nested"),
        ({"x": F}, None, {"group_size": 0}, "group_size must be at least 1, got 0"),
        ({"x": F}, "long", {"group_size": 3}, "group size of 3 was given, but the layout is 'long'"),
        ({"x": F}, "groups", {}, "How many rows make a node"),
        ({"x": F}, "long", {}, "Which column has the id of the node"),
        ({"x": F, "y": F}, None, {"features": ["z"]}, "no column 'z'. The columns are x, y"),
        ({"x": F, "y": F}, None, {"features": ["z*"]}, r"no column 'z\*'"),
        ({"x": F}, None, {"id": "who"}, "no column 'who'"),
        ({"x": F}, None, {"id": ["x", "who"]}, "no column 'who'"),
        ({"x": F}, None, {"probability": "chance"}, "no column 'chance'"),
        ({"x": F}, None, {"weight": "mass"}, "no column 'mass'"),
        ({"x": F, "q": F}, "points", {"probability": "q"}, "'points' has no probabilities, but 'q' was named"),
        ({"x": F, "q": F}, None, {"group_size": 2, "probability": "q"}, "'groups' has no probabilities, but 'q'"),
        ({"x": F, "q": F}, None, {"group_size": 2, "weight": "q"}, "'groups' has no weights, but 'q' was named"),
        ({"a": S}, None, {}, "no columns of numbers"),
        ({"id": N, "p": F}, None, {}, "no columns of numbers except those with another role"),
        ({"x": F}, "nested", {}, "no columns of lists"),
        ({"x": F, "t": pa.date32()}, None, {"features": ["x", "t"]}, r"'t' holds date32\[day\], which cannot"),
        ({"x": L}, "points", {"features": ["x"]}, "'x' holds list<item: double>, which cannot"),
        ({"x": L, "y": F}, "nested", {"features": ["x", "y"]}, "'y' holds double, which cannot"),
        ({"x": pa.list_(S)}, "nested", {"features": ["x"]}, "'x' holds list<item: string>, which cannot"),
        ({"x": F, "y": F}, None, {"id": "y", "weight": "y"}, "'y' was given two roles"),
        ({"x": F, "y": F}, None, {"id": "y", "features": ["x", "y"]}, "'y' was given two roles"),
        ({"x": F, "y": F}, None, {"id": ["y", "y"]}, "'y' was given two roles"),
        ({"id": L, "x": F}, "long", {}, "'id' holds list<item: double>, which cannot be an id"),
        ({"id": pa.month_day_nano_interval(), "x": F}, "long", {}, "'id' holds month_day_nano_interval, which cannot"),
        (
            {"x": pa.list_(pa.list_(pa.float32(), 16_514_817))},
            "nested",
            {},
            "'x' has points with 16,514,817 features, but at most 1,048,576",
        ),
        ({"id": pa.float16(), "x": F}, "long", {}, "'id' holds halffloat, which cannot be an id"),
        ({"id": pa.dictionary(pa.int8(), pa.float16()), "x": F}, "long", {}, "'id' holds dictionary<values=halffloat"),
        ({"x": F, "w": pa.date32()}, None, {"weight": "w"}, r"'w' holds date32\[day\], but the weight"),
        ({"id": N, "x": F, "p": L}, "long", {}, "'p' holds list<item: double>, but the probability"),
        ({"x": L, "p": F}, None, {}, "'p' holds double, but the probability must be lists of numbers"),
    ],
)
def test_errors_name_the_column(columns, layout, options, match):
    with pytest.raises(InputError, match=match):
        choose(columns, layout, **options)


def test_a_name_that_stands_twice():
    with pytest.raises(InputError, match="Duplicate column name 'x'"):
        choose_columns(pa.schema([("x", F), ("y", F), ("x", F)]))


def test_a_column_of_probabilities_without_ids_is_asked_about():
    schema = pa.schema([("t", N), ("x", F), ("p", F)])
    with pytest.raises(InputError, match="Does 'p' hold probabilities of realizations, or is it a feature"):
        choose_columns(schema)
    assert choose_columns(schema, "points").features == ("t", "x", "p")
    assert choose_columns(schema, probability=False).features == ("t", "x", "p")
    assert choose_columns(schema, "long", id="t").probability == "p"


@pytest.mark.parametrize("name", ["chain", "iteration", "replicate"])
def test_numbers_of_draws_are_no_features(name):
    assert choose_columns(pa.schema([("id", N), (name, N), ("x", F)]), "long").features == ("x",)


@pytest.mark.parametrize("name", ["group", "Station", "trip_id", "stationId", "node ID"])
@pytest.mark.parametrize("options", [{}, {"layout": "points"}, {"group_size": 2}])
def test_whole_numbers_that_tell_nodes_apart_are_asked_about(name, options):
    columns = {name: N, "mu": F, "sigma": F}
    with pytest.raises(InputError, match=rf"Is '{name}' the id of .* id='{name}' \(--id {name}\), or id=False"):
        choose(columns, **options)
    assert choose(columns, **options, id=name).features == ("mu", "sigma")
    assert choose(columns, **options, id=False).features == (name, "mu", "sigma")
    assert choose(columns, **options, features=["*"]).features == (name, "mu", "sigma")


def test_what_measures_is_a_feature():
    assert choose({"group": F, "humid": N, "grid": N}).features == ("group", "humid", "grid")
    assert choose({"id": N, "trip": N, "x": F}).features == ("trip", "x")  # the id is another
