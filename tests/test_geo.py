"""Longitude and latitude: on the sphere and on a local map, there and back, at poles and over the date line."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import probi
from probi import InputError, geo
from probi.io import Transform

lons = st.floats(-180, 180, allow_subnormal=False)
lats = st.floats(-90, 90, allow_subnormal=False)
places = st.tuples(lons, lats)
RADIUS = 6371.0088


def along_the_ground(a, b):
    """Distance of two places by the haversine."""
    (lon1, lat1), (lon2, lat2) = ([math.radians(v) for v in p] for p in (a, b))
    h = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * RADIUS * math.asin(min(1.0, math.sqrt(h)))


def around(origin, radius, n, seed=0):
    """Places within so many kilometres of an origin."""
    rng = np.random.default_rng(seed)
    turn, far = rng.uniform(0, 2 * np.pi, n), radius * np.sqrt(rng.uniform(size=n))
    return geo.from_plane(np.column_stack([far * np.cos(turn), far * np.sin(turn)]), origin)


# -- the sphere -------------------------------------------------------------------------------------------------------


@given(places, places)
@example((180.0, 0.0), (-180.0, 0.0))
@example((0.0, 90.0), (77.0, 90.0))
@example((0.0, 0.0), (180.0, 0.0))
def test_straight_distances(a, b):
    x, y = geo.to_sphere([a, b])
    straight = 2 * RADIUS * math.sin(along_the_ground(a, b) / 2 / RADIUS)
    assert_allclose(np.linalg.norm(x - y), straight, rtol=1e-9, atol=1e-4)
    assert_allclose(np.linalg.norm(x), geo.EARTH_RADIUS_KM)


@given(places)
@example((180.0, 0.0))
@example((-180.0, 45.0))
@example((12.0, 90.0))
@example((12.0, -90.0))
def test_sphere_there_and_back(place):
    back = geo.from_sphere(geo.to_sphere(place))
    assert back.shape == (2,)
    assert along_the_ground(back, place) < 1e-6
    assert -180 <= back[0] <= 180
    below = geo.from_sphere(0.7 * geo.to_sphere(place))
    assert along_the_ground(below, place) < 1e-6


def test_the_axes():
    assert_allclose(geo.to_sphere([[0, 0], [90, 0], [45, 90]]) / RADIUS, np.eye(3), atol=1e-15)


def test_the_same_as_of_files():
    some = around((7.0, 50.0), 3000, 50)
    space = Transform(("lon", "lat"), ("lon", "lat"))
    assert geo.to_sphere(some).tolist() == space.coordinates(some).tolist()
    assert geo.from_sphere(0.9 * geo.to_sphere(some)).tolist() == space.inverse(0.9 * geo.to_sphere(some)).tolist()


def test_the_figures_that_are_stated_about_straight_distances():
    for km, stated in ((1000, 0.001), (5000, 0.025)):
        x, y = geo.to_sphere([(0.0, 0.0), (math.degrees(km / RADIUS), 0.0)])
        assert_allclose(1 - np.linalg.norm(x - y) / km, stated, atol=stated / 20)


# -- the plane --------------------------------------------------------------------------------------------------------

ORIGINS = [(13.0, 52.0), (180.0, -17.0), (-179.99, 0.0), (0.0, 0.0), (30.0, 89.9), (5.0, 90.0), (5.0, -90.0)]


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize(("radius", "stated"), [(100, 0.005), (500, 0.11), (1000, 0.42)])
def test_errors_of_distances_are_those_that_are_stated(origin, radius, stated):
    a, b = (around(origin, radius, 20_000, seed) for seed in (0, 1))
    flat = np.linalg.norm(geo.to_plane(a, origin) - geo.to_plane(b, origin), axis=1)
    straight = np.linalg.norm(geo.to_sphere(a) - geo.to_sphere(b), axis=1)
    ground = 2 * RADIUS * np.arcsin(straight / 2 / RADIUS)
    errors = 100 * (flat / ground - 1)[ground > radius / 100]
    assert errors.min() > -1e-6
    assert stated / 2 < errors.max() < stated


@given(places, places)
@example((0.0, 90.0), (180.0, 80.0))
@example((180.0, 10.0), (-180.0, 10.0))
@example((7.0, 50.0), (7.0, 50.0))
@example((-90.0, -90.0), (33.0, -89.0))
def test_distances_from_the_origin_are_exact(origin, place):
    km = along_the_ground(origin, place)
    if km > RADIUS * math.pi / 2:
        with pytest.raises(InputError, match="10,000 km"):
            geo.to_plane(place, origin)
        return
    flat = geo.to_plane(place, origin)
    assert_allclose(np.hypot(*flat), km, rtol=1e-9, atol=1e-6)
    assert along_the_ground(geo.from_plane(flat, origin), place) < 1e-4


@pytest.mark.parametrize("origin", ORIGINS[:5])
def test_east_is_right_and_north_is_up(origin):
    lon, lat = origin
    east, north = geo.to_plane([(lon + 0.01, lat), (lon, lat + 0.01)], origin)
    assert_allclose(north, [0.0, RADIUS * math.radians(0.01)], rtol=1e-6, atol=1e-6)
    assert_allclose(east[0], RADIUS * math.radians(0.01) * math.cos(math.radians(lat)), rtol=1e-6)
    assert abs(east[1]) < 1e-3 * east[0] + 1e-9


def test_over_the_date_line():
    east, west = geo.to_plane([(179.9, 0.0), (-179.9, 0.0)], (180.0, 0.0))
    assert_allclose(west - east, [RADIUS * math.radians(0.2), 0.0], atol=1e-9)
    assert_allclose(abs(geo.from_plane([east, west], (180.0, 0.0)))[:, 0], 179.9)


def test_all_ways_around_a_pole():
    ring = np.column_stack([np.arange(-180, 180, 10), np.full(36, 89.0)])
    flat = geo.to_plane(ring, (0.0, 90.0))
    assert_allclose(np.hypot(*flat.T), RADIUS * math.radians(1.0))
    assert_allclose(np.linalg.norm(np.diff(flat, axis=0), axis=1).std(), 0.0, atol=1e-9)


def test_clusters_over_the_date_line():
    west, east = around((-179.9, 52.0), 5, 30), around((178.0, 52.0), 5, 30, seed=1)
    nodes = probi.Nodes.from_points(geo.to_sphere(np.concatenate([west, east])))
    found = geo.from_sphere(probi.solve(nodes, 2, random_state=0).centers)
    for place in found:
        assert min(along_the_ground(place, (-179.9, 52.0)), along_the_ground(place, (178.0, 52.0))) < 3


# -- shapes, types, and what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2,), (5, 2), (3, 4, 2), (0, 2)])
def test_shapes_and_types(shape):
    some = np.random.default_rng(0).uniform(1, 3, shape)
    for values in (some, some.astype(np.float32), np.round(some).astype(int), some.tolist() if shape[0] else some):
        before = np.array(values)
        dtype = np.float32 if before.dtype == np.float32 else np.float64
        sphere, plane = geo.to_sphere(values), geo.to_plane(values, (2, 2))
        assert (sphere.shape, sphere.dtype) == ((*shape[:-1], 3), dtype)
        assert (plane.shape, plane.dtype) == (shape, dtype)
        for back in (geo.from_sphere(sphere), geo.from_plane(plane, (2, 2))):
            assert (back.shape, back.dtype) == (shape, dtype)
            assert_allclose(back, before, atol=1e-4 if dtype == np.float32 else 1e-9)
        assert np.array_equal(np.array(values), before)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([[1.0, 2.0, 3.0]], "2 in the last axis"),
        (5.0, "2 in the last axis"),
        (["a", "b"], "must be numbers"),
        ([True, False], "must be numbers"),
        ([[0.0, 0.0], [0.0, math.nan]], "Location 1 is not finite"),
        ([[math.inf, 0.0]], "Location 0 is not finite"),
        ([[52.0, 13.0], [0.0, 91.0]], r"Location 1 has latitude 91\.0"),
        ([[52.0, -100.0]], "Longitude comes first"),
    ],
)
def test_what_is_no_place(values, match):
    with pytest.raises(InputError, match=match):
        geo.to_sphere(values)
    with pytest.raises(InputError, match=match):
        geo.to_plane(values, (0.0, 0.0))


def test_what_is_no_point_or_origin():
    with pytest.raises(InputError, match="3 in the last axis"):
        geo.from_sphere([[1.0, 2.0]])
    with pytest.raises(InputError, match="not finite"):
        geo.from_plane([math.nan, 0.0], (0.0, 0.0))
    with pytest.raises(InputError, match="one location"):
        geo.to_plane([1.0, 2.0], [[0.0, 0.0]])
    with pytest.raises(InputError, match="latitude"):
        geo.to_plane([1.0, 2.0], (0.0, 99.0))


def test_the_middle_of_the_earth():
    assert geo.from_sphere([0.0, 0.0, 0.0]).tolist() == [0.0, 0.0]
