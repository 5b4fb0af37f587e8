"""Measurements with errors: arrays, catalogs with units and correlations, GPS fixes with an accuracy."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import probi
from probi import InputError, Nodes, geo

pd = pytest.importorskip("pandas")


def moments(nodes, i):
    """Mean and covariance of the realizations of a node."""
    part = nodes[i]
    mean = part.probabilities @ part.points
    centered = part.points - mean
    return mean, (part.probabilities[:, None] * centered).T @ centered


# -- arrays -----------------------------------------------------------------------------------------------------------

X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


@pytest.mark.parametrize(
    ("sigma", "wanted"),
    [
        (0.5, np.full((3, 2), 0.5)),
        ([0.1, 0.2], np.tile([0.1, 0.2], (3, 1))),
        ([0.1, 0.2, 0.3], np.repeat([[0.1], [0.2], [0.3]], 2, axis=1)),
        (X / 10, X / 10),
    ],
)
@pytest.mark.parametrize(
    ("correlation", "r"),
    [
        (None, [0.0, 0.0, 0.0]),
        (0.5, [0.5, 0.5, 0.5]),
        ([0.1, -0.2, 0.9], [0.1, -0.2, 0.9]),
        ([[1.0, 0.5], [0.5, 1.0]], [0.5, 0.5, 0.5]),
    ],
)
def test_moments_are_those_of_the_errors(sigma, wanted, correlation, r):
    nodes = Nodes.from_errors(X, sigma, correlation)
    for i in range(3):
        mean, covariance = moments(nodes, i)
        assert_allclose(mean, X[i])
        a, b = wanted[i]
        assert_allclose(covariance, [[a * a, r[i] * a * b], [r[i] * a * b, b * b]], atol=1e-12)


def test_a_square_of_errors_is_per_feature():
    nodes = Nodes.from_errors(X[:2], [0.1, 0.2])
    assert_allclose(np.diag(moments(nodes, 0)[1]), [0.01, 0.04])


def test_draws_and_weights():
    nodes = Nodes.from_errors(X, 0.1, n=7, weights=[1, 2, 3], ids=list("abc"), random_state=0)
    assert_array_equal(np.diff(nodes.offsets), 7)
    assert_array_equal(nodes.weights, [1, 2, 3])
    assert_array_equal(nodes.ids, list("abc"))
    assert nodes == Nodes.from_errors(X, 0.1, n=7, weights=[1, 2, 3], ids=list("abc"), random_state=0)


# -- tables -----------------------------------------------------------------------------------------------------------

GAIA = pd.DataFrame(
    {
        "source_id": [11, 12], "pmra": [3.0, -7.0], "pmra_error": [0.1, 0.3], "pmdec": [0.5, 2.0],
        "pmdec_error": [0.2, 0.2], "pmra_pmdec_corr": [0.5, -0.6], "phot_g_mean_mag": [12.0, 13.0],
    }
)  # fmt: skip


def test_gaia_names_its_errors_and_correlations():
    nodes = Nodes.from_errors(GAIA)
    assert nodes.shape == (2, 2)
    for i, row in GAIA.iterrows():
        mean, covariance = moments(nodes, i)
        assert_allclose(mean, [row.pmra, row.pmdec])
        mixed = row.pmra_pmdec_corr * row.pmra_error * row.pmdec_error
        assert_allclose(covariance, [[row.pmra_error**2, mixed], [mixed, row.pmdec_error**2]])
    # In the other order of the features as well.
    assert_allclose(
        moments(Nodes.from_errors(GAIA, features=["pmdec", "pmra"]), 0)[1], moments(nodes, 0)[1][::-1, ::-1]
    )
    assert_array_equal(Nodes.from_errors(GAIA.set_index("source_id")).ids, [11, 12])


def test_errors_by_name_and_by_array():
    nodes = Nodes.from_errors(GAIA, ["pmdec_error", "pmra_error"], features=["pmra", "pmdec"], correlation=0.0)
    assert_allclose(np.diag(moments(nodes, 0)[1]), [0.04, 0.01])
    assert Nodes.from_errors(GAIA, 0.1, features=["phot_g_mean_mag"]).shape == (2, 1)
    vizier = pd.DataFrame({"Plx": [1.0], "e_Plx": [0.2]})
    assert_allclose(moments(Nodes.from_errors(vizier), 0)[1], 0.04)


@pytest.mark.slow
def test_units_of_astropy():
    astropy = pytest.importorskip("astropy")
    from astropy import units as u
    from astropy.table import MaskedColumn, QTable, Table

    assert astropy is not None
    table = QTable(
        {
            "parallax": [10.0, 20.0] * u.mas, "parallax_error": [1.0, 2.0] * u.uas * 1000,
            "pmra": [3.0, 4.0] * u.mas / u.yr, "pmra_error": [0.1, 0.2] * u.mas / u.yr,
        }
    )  # fmt: skip
    nodes = Nodes.from_errors(table, features="parallax")
    assert_allclose(moments(nodes, 1)[1], 4.0)  # errors in the unit of the values
    with pytest.raises(InputError, match=r"different units: parallax \(mas\), pmra \(mas / yr\). Write scale="):
        Nodes.from_errors(table)
    scaled = Nodes.from_errors(table, scale={"parallax": 5.0})
    assert_allclose(moments(scaled, 0)[0], [2.0, 3.0])
    assert_allclose(np.diag(moments(scaled, 0)[1]), [0.04, 0.01])
    values = [[10.0, 20.0], [30.0, 40.0]] * u.km
    assert_allclose(moments(Nodes.from_errors(values, 500 * u.m), 0)[1], 0.25 * np.eye(2), atol=1e-15)
    masked = Table({"a": MaskedColumn([1.0, 2.0], mask=[False, True]), "a_err": [0.1, 0.1]})
    with pytest.raises(InputError, match="Row 1 has no value or no error in feature 0"):
        Nodes.from_errors(masked)
    table["pmra_error"] = [1.0, 1.0] * u.s
    with pytest.raises(InputError, match=r"'pmra_error' is in s, which cannot be converted to mas / yr"):
        Nodes.from_errors(table, features=["pmra"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Nodes.from_errors(X), "sigma is missing: give the standard errors of X"),
        (lambda: Nodes.from_errors(X, [1.0, 2.0, 3.0, 4.0]), r"sigma has shape \(4,\); give \(3, 2\), \(2,\), \(3,\)"),
        (lambda: Nodes.from_errors(X, -1.0), "Row 0 has a negative error in feature 0"),
        (lambda: Nodes.from_errors(X, np.inf), "Row 0 has an infinite error"),
        (lambda: Nodes.from_errors(X, 0.1, 1.5), "Correlations must lie between -1 and 1"),
        (lambda: Nodes.from_errors(X, 0.1, np.eye(3)), r"correlation has shape \(3, 3\); give \(2, 2\), \(3, 2, 2\)"),
        (lambda: Nodes.from_errors(X, 0.1, features="a"), "features and scale are for tables"),
        (lambda: Nodes.from_errors(X, 0.1, confidence=0.68), "confidence is for a GeoDataFrame"),
        (lambda: Nodes.from_errors(GAIA, features="pm"), "There is no column 'pm'; there are source_id, pmra"),
        (lambda: Nodes.from_errors(GAIA, 0.1), "features is missing: name the columns of values, among source_id"),
        (lambda: Nodes.from_errors(GAIA[["pmra"]]), "features is missing"),
        (lambda: Nodes.from_errors(GAIA, features="phot_g_mean_mag"), "There is no column phot_g_mean_mag_error or e_"),
        (lambda: Nodes.from_errors(GAIA, "error", features="pmra"), "There is no column error with the errors of"),
        (lambda: Nodes.from_errors(GAIA, ["pmra_error"], features=["pmra", "pmdec"]), "1 columns of errors for 2"),
    ],
)
def test_messages(call, message):
    with pytest.raises(InputError, match=message):
        call()


# -- GPS fixes --------------------------------------------------------------------------------------------------------


def fixes(crs=4326):
    geopandas = pytest.importorskip("geopandas")
    lon, lat = [13.40, 13.41, 179.99999], [52.50, 52.51, -17.0]
    frame = geopandas.GeoDataFrame(
        {"accuracy": [15.0, 30.0, 60.0], "east": [10.0, 10.0, 10.0], "north": [20.0, 20.0, 20.0]},
        geometry=geopandas.points_from_xy(lon, lat),
        crs=4326,
    )
    return frame.to_crs(crs), np.column_stack([lon, lat])


@pytest.mark.parametrize("crs", [4326, 3857])
def test_fixes_on_the_sphere(crs):
    frame, lonlat = fixes(crs)
    nodes = Nodes.from_errors(frame, "accuracy", confidence=0.68)
    assert nodes.shape == (3, 3)
    assert_allclose(geo.from_sphere(nodes.gravity_centers), lonlat, atol=1e-6)
    # 68 % of a Gaussian in the plane are within the radius.
    many = Nodes.from_errors(frame, "accuracy", confidence=0.68, n=4000, random_state=0)
    distances = np.linalg.norm(many.points - np.repeat(geo.to_sphere(lonlat), 4000, axis=0), axis=1)
    inside = distances.reshape(3, 4000) < np.array([[0.015], [0.030], [0.060]])
    assert_allclose(inside.mean(axis=1), 0.68, atol=0.03)


def test_errors_to_the_east_and_to_the_north():
    frame, lonlat = fixes()
    nodes = Nodes.from_errors(frame, ["east", "north"])
    plane = geo.to_plane(geo.from_sphere(nodes[0].points), lonlat[0])
    covariance = (nodes[0].probabilities[:, None] * plane).T @ plane
    assert_allclose(covariance, np.diag([0.010, 0.020]) ** 2, atol=1e-9)
    assert Nodes.from_errors(frame, 25.0).shape == (3, 3)
    result = probi.solve(nodes, 2, random_state=0)
    assert math.isfinite(result.cost)


def test_messages_of_fixes():
    frame, _ = fixes()
    for call, message in [
        (lambda: Nodes.from_errors(frame), "sigma is missing: name the column of the errors in meters"),
        (lambda: Nodes.from_errors(frame, "radius"), "There is no column 'radius'; there are accuracy"),
        (lambda: Nodes.from_errors(frame, ["accuracy", "east", "north"]), "more than two columns"),
        (lambda: Nodes.from_errors(frame, "accuracy", confidence=68), "confidence is 68, but must lie between 0 and 1"),
        (
            lambda: Nodes.from_errors(frame.set_crs(None, allow_override=True), "accuracy"),
            r"write frame.set_crs\(4326\)",
        ),
        (
            lambda: Nodes.from_errors(frame.to_crs(3857).set_geometry(frame.to_crs(3857).buffer(9)), "accuracy"),
            "centroids",
        ),
    ]:
        with pytest.raises(InputError, match=message):
            call()
