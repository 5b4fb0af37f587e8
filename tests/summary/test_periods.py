"""Times as numbers of periods: numbers, dates of all kinds, and what is neither."""

import math
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probi import InputError
from probi.summary.periods import Periods

HOUR = np.timedelta64(1, "h")
DAY = np.timedelta64(1, "D")
EPOCH = datetime(1970, 1, 1)

ATTOSECONDS = {
    "W": 604800 * 10**18, "D": 86400 * 10**18, "h": 3600 * 10**18, "m": 60 * 10**18, "s": 10**18, "ms": 10**15,
    "us": 10**12, "ns": 10**9, "ps": 10**6, "fs": 10**3, "as": 1,
}  # fmt: skip


@given(st.integers(1, 10**6), st.lists(st.integers(-(10**15), 10**15), min_size=1))
def test_whole_numbers_are_exact(length, times):
    periods = Periods.checked(length)
    numbers = periods.numbers(np.array(times))
    assert numbers.tolist() == [math.floor(Fraction(time, length)) for time in times]
    for number, time in zip(numbers.tolist(), times, strict=True):
        assert periods.start(number) <= time < periods.start(number + 1)


@given(st.floats(1e-3, 1e3), st.floats(-1e6, 1e6))
def test_floats_go_by_python(length, time):
    assert Periods.checked(length).numbers(time) == time // length
    assert Periods.checked(length).numbers([time]).shape == (1,)


def test_floats_and_whole_numbers_together():
    assert Periods.checked(10).numbers([-0.5, 9.5, 10.0]).tolist() == [-1, 0, 1]
    assert Periods.checked(2.5).numbers([-1, 4, 5]).tolist() == [-1, 1, 2]
    assert Periods.checked(np.int32(10)).numbers(np.array([255], np.uint8)).tolist() == [25]


@given(
    st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)),
    st.timedeltas(timedelta(microseconds=1), timedelta(days=400)),
)
def test_dates_are_exact(time, length):
    (expected, _) = divmod(time - EPOCH, length)
    periods = Periods.checked(length)
    if abs(expected) > 2**52:
        with pytest.raises(InputError, match="cannot be told apart"):
            periods.numbers(time)
        return
    assert periods.numbers(time) == periods.numbers(np.datetime64(time)) == expected
    assert periods.numbers([time, time]).tolist() == [expected] * 2
    assert periods.numbers(np.array([time], object)).tolist() == [expected]
    assert periods.start(int(expected)) <= np.datetime64(time) < periods.start(int(expected) + 1)


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"])
def test_units_of_dates(unit):
    assert Periods.checked(HOUR).numbers(np.array(["2020-01-01", "1969-12-31T23"], f"M8[{unit}]"))[0] == {
        "W": 438288 - 6 * 24,  # weeks begin on a Thursday, as 1970 did; that day was a Wednesday
    }.get(unit, 438288)


def test_zones():
    zone = timezone(timedelta(hours=-5))
    aware = datetime(2020, 1, 1, 5, 30, tzinfo=zone)
    plain = datetime(2020, 1, 1, 10, 30)
    periods = Periods.checked(HOUR)
    assert periods.numbers(aware) == periods.numbers(plain) == periods.numbers(plain.replace(tzinfo=UTC))
    assert periods.numbers([aware, plain]).tolist() == [periods.numbers(plain)] * 2


def test_times_of_pandas():
    pandas = pytest.importorskip("pandas")
    times = pandas.Series(pandas.date_range("2020-01-01", periods=3, freq="30min"))
    assert (Periods.checked(HOUR).numbers(times) - 438288).tolist() == [0, 0, 1]
    assert Periods.checked(HOUR).numbers(times[2]) == 438289
    assert Periods.checked(pandas.Timedelta("1h")).numbers(times[2].tz_localize("UTC")) == 438289


@pytest.mark.parametrize(("length", "times"), [(1, [5.0, 99999.0]), (HOUR, np.array([5, 99999], "M8[h]"))])
def test_masked_times_are_refused(length, times):
    periods = Periods.checked(length)
    with pytest.raises(InputError, match="times has masked values"):
        periods.numbers(np.ma.masked_array(times, mask=[0, 1]))
    assert periods.numbers(np.ma.masked_array(times, mask=[0, 0])).tolist() == [5, 99999]


def test_missing_times_of_pandas_are_refused():
    pandas = pytest.importorskip("pandas")
    missing, there = pandas.NaT, pandas.Timestamp("2020-01-01")
    zoned = pandas.Series([missing, there.tz_localize("UTC")])
    for times in (missing, [missing], [there, missing], [datetime(2020, 1, 1), missing], zoned):
        with pytest.raises(InputError, match="missing or not finite"):
            Periods.checked(HOUR).numbers(times)


def test_the_first_and_last_dates_of_python_in_any_zone():
    periods = Periods.checked(HOUR)
    for time, hours in ((datetime.min, 5), (datetime.max, -5)):
        aware = time.replace(tzinfo=timezone(timedelta(hours=hours)))
        assert periods.numbers(aware) == periods.numbers(time) - hours


def test_words():
    assert str(Periods.checked(timedelta(hours=1))) == "1 hour"
    assert str(Periods.checked(np.timedelta64(7200, "s"))) == "2 hours"
    assert str(Periods.checked(np.timedelta64(1, "W"))) == "7 days"
    assert str(Periods.checked(86400)) == "86,400"
    assert str(Periods.checked(np.timedelta64(5, "as"))) == "5 attoseconds"


@pytest.mark.parametrize(
    "length",
    [1, 86400, 0.25, HOUR, np.timedelta64(90, "25s"), np.timedelta64(1, "as"), np.timedelta64(90, "25ns")],
)
def test_as_plain_values_and_back(length):
    periods = Periods.checked(length)
    assert Periods.from_json(periods.to_json()) == periods
    assert periods.length == length


@pytest.mark.parametrize(
    "length",
    [
        0,
        -1,
        True,
        "1h",
        None,
        math.nan,
        math.inf,
        2**70,
        np.timedelta64("NaT", "s"),
        timedelta(0),
        np.timedelta64(-1, "s"),
    ],
)
def test_no_length(length):
    with pytest.raises(InputError, match="must be a positive number, a timedelta"):
        Periods.checked(length)


@pytest.mark.parametrize("length", [np.timedelta64(1, "M"), np.timedelta64(1, "Y"), np.timedelta64(3)])
def test_no_fixed_length(length):
    with pytest.raises(InputError, match="no fixed length"):
        Periods.checked(length)


@pytest.mark.parametrize(
    ("length", "times", "match"),
    [
        (1, np.nan, "not finite"),
        (1, [0.0, np.inf], "not finite"),
        (HOUR, np.datetime64("NaT", "s"), "not finite"),
        (HOUR, 3, "times must be dates"),
        (1, np.datetime64("2020"), "times must be numbers"),
        (1, "noon", "numbers or dates"),
        (1, True, "numbers or dates"),
        (1, None, "numbers or dates"),
        (1, [1, None], "numbers or dates"),
        (1, HOUR, "numbers or dates"),
        (1, 2**64 - 1, "too large"),
        (1, 2**70, "numbers or dates"),
        (1, [[1, 2], [3]], "cannot be made an array"),
        (1e-9, 1e9, "cannot be told apart"),
        (np.timedelta64(1, "as"), np.datetime64("2020"), "overflow"),
        (np.timedelta64(1, "ps"), np.datetime64("2020"), "overflow"),
        (np.timedelta64(1, "ns"), np.datetime64("9999-01-01"), "overflow"),
        (np.timedelta64(1, "fs"), np.datetime64(0, "W"), "overflow"),
        (np.timedelta64(1, "ns"), np.datetime64("2020"), "cannot be told apart"),
        (1, -(2**63), "cannot be told apart"),
        (5e-324, 1.0, "cannot be told apart"),
        (1.0, np.finfo(np.longdouble).max, "cannot be told apart"),
        (HOUR, np.array([5]).view("M8"), "no unit"),
        (DAY, np.datetime64(4 * 10**14, "D"), "overflow"),
        (DAY, np.datetime64(-(2**63) + 1, "s"), "overflow"),
        (DAY, np.datetime64(2**63 - 1, "D"), "overflow|told apart"),
        (DAY, np.datetime64(2**55, "Y"), "overflow"),
        (DAY, np.datetime64(2**59, "M"), "overflow"),
        (DAY, np.datetime64(2**61, "W"), "overflow"),
    ],
)
def test_no_times(length, times, match):
    with pytest.raises(InputError, match=match):
        Periods.checked(length).numbers(times)


@pytest.mark.parametrize(
    "length", [np.timedelta64(2**61, "W"), np.timedelta64(2**62, "h"), np.timedelta64(2**63 - 1, "s")]
)
def test_a_period_longer_than_all_dates_is_refused(length):
    with pytest.raises(InputError, match="longer than"):
        Periods.checked(length)


@given(
    st.integers(1, 2**63 - 1),
    st.sampled_from(["W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.sampled_from(["W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]),
)
def test_any_date_is_exact_or_refused(length, unit, time, unit_of_time):
    try:
        periods = Periods.checked(np.timedelta64(length, unit))
        number = int(periods.numbers(np.datetime64(time, unit_of_time)))
    except InputError:
        return
    assert number == math.floor(Fraction(time * ATTOSECONDS[unit_of_time], length * ATTOSECONDS[unit]))
    for other in (number + 1, number - periods.most + 1):
        start = periods.start(other)
        found = int(start.astype(np.int64)) * ATTOSECONDS[np.datetime_data(start)[0]]
        assert found == other * length * ATTOSECONDS[unit]


@pytest.mark.parametrize(
    "values",
    [
        {"length": 1.5, "unit": "s"}, {"length": 2**70, "unit": "s"}, {"length": 2**61, "unit": "W"},
        {"length": True, "unit": "s"}, {"length": -1, "unit": "s"}, {"length": "1", "unit": "s"},
        {"length": 1, "unit": "Q"}, {"length": 1, "unit": "M"}, {"length": 1, "unit": ["s"]}, {"length": 1, "unit": 3},
        {"length": 1.5, "unit": ""}, {"length": "1", "unit": None}, {"length": 2**70, "unit": None},
    ],
    ids=str,
)  # fmt: skip
def test_plain_values_that_are_no_period(values):
    with pytest.raises(InputError):
        Periods.from_json(values)


def test_no_times_at_all():
    for length in (1, 0.5, HOUR):
        assert Periods.checked(length).numbers([]).tolist() == []
