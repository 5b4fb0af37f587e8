"""Scales, and longitude and latitude: there and back."""

import json
import math
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from table_files import joined, read_nodes, tiny, write

import probi.io
from probi.errors import InputError
from probi.geo import EARTH_RADIUS_KM
from probi.io import Transform
from probi.io.transform import QUARTILES_APART, read_scale

lons = st.floats(-180, 180, allow_subnormal=False)
lats = st.floats(-90, 90, allow_subnormal=False)
GLOBE = Transform(("lon", "lat"), ("lon", "lat"))


def chord(a, b):
    """Straight distance through the Earth, by the haversine."""
    (lon1, lat1), (lon2, lat2) = ([math.radians(v) for v in p] for p in (a, b))
    h = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371.0088 * math.sqrt(h)


@given(st.tuples(lons, lats), st.tuples(lons, lats))
@example((180.0, 0.0), (-180.0, 0.0))
@example((0.0, 90.0), (77.0, 90.0))
@example((0.0, 0.0), (180.0, 0.0))
def test_distances_are_chords_of_the_earth(a, b):
    x, y = GLOBE.coordinates(np.array([a, b]))
    assert_allclose(np.linalg.norm(x - y), chord(a, b), rtol=1e-9, atol=1e-9)
    assert_allclose(np.linalg.norm(x), EARTH_RADIUS_KM)


@given(lons, lats)
@example(180.0, 0.0)
@example(-180.0, 45.0)
@example(12.0, 90.0)
@example(12.0, -90.0)
def test_longitude_and_latitude_there_and_back(lon, lat):
    (back,) = GLOBE.inverse(GLOBE.coordinates(np.array([[lon, lat]])))
    assert_allclose(back[1], lat, atol=1e-6)
    if abs(lat) < 89.9999:  # at a pole there is no longitude
        apart = (back[0] - lon + 180) % 360 - 180
        assert abs(apart) < 1e-6
    assert chord(back, (lon, lat)) < 1e-4


def test_longitudes_beyond_the_date_line_are_turned():
    back = GLOBE.inverse(GLOBE.coordinates(np.array([[190.0, 10.0], [-350.0, -10.0]])))
    assert_allclose(back, [[-170.0, 10.0], [10.0, -10.0]])


def test_a_place_below_the_ground_is_moved_up():
    inside = GLOBE.coordinates(np.array([[7.0, 50.0]])) * 0.8
    assert_allclose(GLOBE.inverse(inside), [[7.0, 50.0]])


SPACES = st.sampled_from(
    [
        Transform(("a", "b", "c")),
        Transform(("a", "b", "c"), scale=(2.0, 0.5, 10.0)),
        Transform(("a", "b", "c"), ("c", "a")),
        Transform(("a", "b", "c"), ("a", "c"), (100.0, 100.0, 100.0, 3.0)),
    ]
)


@given(SPACES, st.lists(st.tuples(*[st.floats(-80, 80, allow_subnormal=False)] * 3), min_size=1, max_size=5))
def test_originals_of_coordinates(space, rows):
    features = np.array(rows)
    coordinates = space.coordinates(features)
    assert coordinates.shape == (len(rows), space.n_coordinates) == (len(rows), len(space.coordinate_names))
    assert_allclose(space.inverse(coordinates), features, atol=1e-6)
    assert space.coordinates(features.astype(np.float32)).dtype == np.float32
    assert features.tolist() == np.array(rows).tolist()


def test_names_and_units():
    space = Transform(("t", "lat", "lon"), ("lon", "lat"))
    assert space.coordinate_names == ["lon,lat"] * 3 + ["t"]
    assert (space.unit, GLOBE.unit, Transform(("x",)).unit) == ("", "km", "")
    features = np.array([[5.0, 90.0, 0.0]])
    assert_allclose(space.coordinates(features), [[0, 0, EARTH_RADIUS_KM, 5.0]], atol=1e-9)


@given(SPACES)
def test_as_plain_values_and_back(space):
    assert Transform.from_json(json.loads(json.dumps(space.to_json()))) == space


@pytest.mark.parametrize(
    "values", [None, [], {}, {"features": 1}, {"features": ["x"], "scale": ["a"]}, {"features": ["x"], "lonlat": [1]}]
)
def test_what_describes_no_space(values):
    with pytest.raises(InputError, match="Not a valid transform"):
        Transform.from_json(values)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((("x",), ("lon", "x")), "no feature 'lon'"),
        ((("x", "y"), ("x", "x")), "the same column"),
        ((("x", "y"), None, (1.0,)), "1 scales for 2 coordinates"),
        ((("x", "y"), ("x", "y"), (1.0, 1.0)), "2 scales for 3 coordinates"),
        ((("x",), None, (0.0,)), "positive"),
        ((("x",), None, (-1.0,)), "positive"),
        ((("x",), None, (float("nan"),)), "positive"),
        ((("x",), None, (float("inf"),)), "positive"),
    ],
)
def test_spaces_that_are_none(arguments, match):
    with pytest.raises(InputError, match=match):
        Transform(*arguments)


# -- scales -----------------------------------------------------------------------------------------------------------


def test_standard_and_robust_scales_by_their_definition():
    values = [[1.0, 10.0], [2.0, 30.0], [4.0, 20.0], [7.0, 90.0], [100.0, 50.0]]
    standard = Transform(("x", "y")).scaled_by("standard", np.array(values)).scale
    robust = Transform(("x", "y")).scaled_by("robust", np.array(values)).scale
    for j in range(2):
        column = sorted(row[j] for row in values)
        mean = sum(column) / 5
        assert standard[j] == pytest.approx(math.sqrt(sum((v - mean) ** 2 for v in column) / 5))
        assert robust[j] == pytest.approx((column[3] - column[1]) / QUARTILES_APART)
    # The distance of a normal distribution's quartiles, by the table.
    assert pytest.approx(2 * 0.6744897502) == QUARTILES_APART


def test_constant_columns_are_left_as_they_are():
    values = np.column_stack([np.full(50, 0.1), np.zeros(50), [0.0] * 49 + [5.0], np.full(50, 1e9) + 1e-7])
    for how in ("standard", "robust"):
        scale = Transform(("a", "b", "c", "d")).scaled_by(how, values).scale
        assert (scale[0], scale[1], scale[3]) == (1.0, 1.0, 1.0)
        assert scale[2] == pytest.approx(values[:, 2].std())  # equal quartiles, but not constant


def test_the_sphere_has_one_scale():
    draw = np.random.default_rng(0)
    places = np.column_stack([draw.uniform(0, 10, 99), draw.uniform(50, 51, 99), draw.normal(size=99)])
    for how in ("standard", "robust"):
        scale = Transform(("lon", "lat", "t"), ("lon", "lat")).scaled_by(how, places).scale
        assert len(set(scale[:3])) == 1
        assert len(scale) == 4


@pytest.mark.slow
@pytest.mark.parametrize("how", ["standard", "robust"])
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_estimated_scales_do_not_depend_on_batches(tmp_path, monkeypatch, how, format):
    monkeypatch.setattr(sys.modules["probi.io.reader"], "N_ESTIMATED", 37)
    draw = np.random.default_rng(1)
    columns = {"id": np.repeat(np.arange(40), 3).tolist(), "x": draw.normal(size=120).tolist()}
    path = write(tmp_path / f"x.{format}", columns)
    expected = Transform(("x",)).scaled_by(how, np.array(columns["x"][:37])[:, None])
    for rows in (1, 2, 7, 50, 1000):
        tiny(monkeypatch, rows, block=20 * rows)
        reader = probi.io.read(path, layout="long", scale=how)
        batches = list(reader.batches())
        assert reader.space == expected
        assert_allclose(joined(batches).points[:, 0] * expected.scale[0], columns["x"], rtol=1e-15)
        assert [b.counts.rows for b in batches] == sorted(b.counts.rows for b in batches)


def test_fewer_rows_than_are_wanted_and_no_rows(tmp_path):
    path = write(tmp_path / "x.csv", {"x": [1.0, 3.0]})
    assert read_nodes(path, scale="standard").points.tolist() == [[1.0], [3.0]]
    (tmp_path / "y.csv").write_text("x\n")
    assert read_nodes(tmp_path / "y.csv", scale="standard") is None


def test_a_reader_gives_nodes_on_the_globe(tmp_path):
    path = write(tmp_path / "x.csv", {"id": [1, 1, 2], "lon": [0.0, 90.0, 0.0], "lat": [0.0, 0.0, 90.0]})
    nodes = read_nodes(path, layout="long", lonlat=("lon", "lat"))
    assert_allclose(nodes.points, EARTH_RADIUS_KM * np.eye(3), atol=1e-9)
    assert nodes.offsets.tolist() == [0, 2, 3]
    with pytest.raises(InputError, match=r"x\.csv: There is no feature 'east'"):
        read_nodes(path, layout="long", lonlat=("east", "lat"))


def test_scales_from_a_file(tmp_path):
    path = write(tmp_path / "x.csv", {"scale": [2.0, 4.0], "y": [3.0, 9.0]})
    for values in ({"scale": 2, "y": 3.0}, {"scale": {"scale": 2, "y": 3.0, "z": 1}, "cost": 1}):
        (tmp_path / "scale.json").write_text(json.dumps(values))
        assert read_nodes(path, scale=str(tmp_path / "scale.json")).points.tolist() == [[1.0, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "cannot be read"),
        ("[1, 2]", "expected a JSON object"),
        ('{"x": 1}', "no scale for the feature 'y'"),
        ('{"x": 1, "y": "a"}', "not a number"),
        ('{"x": 1, "y": null}', "not a number"),
        ('{"x": 1, "y": 0}', "positive"),
        ('{"x": 1, "y": NaN}', "positive"),
    ],
)
def test_scales_that_are_none(tmp_path, text, match):
    path = write(tmp_path / "x.csv", {"x": [1.0], "y": [2.0]})
    (tmp_path / "scale.json").write_text(text)
    with pytest.raises(InputError, match=match):
        read_nodes(path, scale=str(tmp_path / "scale.json"))


def test_a_scale_that_is_neither_a_way_nor_a_file(tmp_path):
    path = write(tmp_path / "x.csv", {"x": [1.0]})
    with pytest.raises(InputError, match="scale is 'unit': neither none, standard, robust nor a file"):
        probi.io.read(path, scale="unit")
    with pytest.raises(InputError, match="scales cannot be read"):
        read_scale(tmp_path / "nothing.json", ["x"])
