"""Period numbers of times, which are plain numbers or dates."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from probi._types import Array, Integers
from probi.errors import InputError
from probi.validation import as_array, check_count

# Beyond this, float64 does not represent all period numbers.
MOST = 1 << 52

# Limit for NumPy dates, in seconds or in the unit of the period if that is finer. The latest period and the length of a
# window may both reach it: their difference, and the end of the period, still fit in int64.
FARTHEST = (1 << 62) - 1

# Units of fixed length, in attoseconds. Converted with Python integers, because NumPy's conversions wrap around.
SECOND = 10**18
UNITS = {
    "W": 604_800 * SECOND,
    "D": 86_400 * SECOND,
    "h": 3_600 * SECOND,
    "m": 60 * SECOND,
    "s": SECOND,
    "ms": 10**15,
    "us": 10**12,
    "ns": 10**9,
    "ps": 10**6,
    "fs": 10**3,
    "as": 1,
}


@dataclass(frozen=True)
class Periods:
    """Periods of one length: period number n is the times t with n * length <= t < (n + 1) * length.

    Dates count from the beginning of 1970, UTC. Numbers are exact for integers and dates; for floating-point
    times the quotient is rounded down as by Python's ``//``.

    Attributes
    ----------
    length : int, float or timedelta64
    """

    length: Any

    @classmethod
    def checked(cls, length: Any) -> "Periods":
        """Periods of a length given by the user."""
        if isinstance(length, timedelta):
            length = np.timedelta64(length)
        if isinstance(length, np.timedelta64):
            if np.datetime_data(length)[0] in ("Y", "M", "generic") and not np.isnat(length):
                raise InputError(f"The period is {length!r}, which has no fixed length. Give it in days or seconds.")
            if int(length.astype(np.int64)) > 0:  # excludes NaT; comparing with 0 needs a unit, and may overflow in it
                return cls(_in_coarsest_unit(length))
        elif isinstance(length, (int, float, np.integer, np.floating)) and not isinstance(length, bool):
            number = int(length) if isinstance(length, (int, np.integer)) else float(length)
            if 0 < number < 2**63:
                return cls(number)
        raise InputError(f"The period is {length!r}, but must be a positive number, a timedelta or a timedelta64.")

    @property
    def of_dates(self) -> bool:
        """Whether times are dates, not numbers."""
        return isinstance(self.length, np.timedelta64)

    @property
    def most(self) -> int:
        """Largest number of periods, before or after 0, and in a window."""
        if not self.of_dates:
            return MOST
        return min(MOST, FARTHEST // self._ticks()[1])

    def numbers(self, times: Any) -> Integers:
        """Number of the period of each time, in an array of the same shape."""
        values = _as_times(times)
        if values.size == 0:
            return np.zeros(values.shape, np.int64)
        quotients: Array
        if self.of_dates != (values.dtype.kind == "M"):
            period, wanted = ("a timedelta", "dates") if self.of_dates else ("a number", "numbers")
            raise InputError(f"The period is {period}, so times must be {wanted}, but they are {values.dtype}.")
        if not np.isfinite(values).all():  # excludes NaT
            raise InputError("A time is missing or not finite. Drop its node, or fix the time.")
        if self.of_dates:
            quotients = _whole_quotients(_since_1970(values), self.length)
        elif values.dtype.kind == "f" or isinstance(self.length, float):
            with np.errstate(all="ignore"):  # the range check below catches inf and NaN
                quotients = np.floor_divide(values.astype(np.float64), self.length)
        else:
            quotients = np.floor_divide(values.astype(np.int64), self.length)
        # No absolute values: that of the smallest int64 is negative.
        if not (quotients.min() >= -MOST and quotients.max() <= MOST):
            raise InputError(f"A time is too far from 0: periods of {self} cannot be told apart there.")
        if not (quotients.min() >= -self.most and quotients.max() <= self.most):
            raise InputError("A time is so far from 1970 that dates overflow.")
        return quotients.astype(np.int64)

    def start(self, number: int) -> Any:
        """First time of a period."""
        if not self.of_dates:
            return number * self.length
        unit, ticks = self._ticks()
        return np.datetime64(number * ticks, unit)

    def _ticks(self) -> tuple[Any, int]:
        """Length in the unit of starts: seconds, or that of the length if it is finer."""
        unit = np.datetime_data(self.length)[0]
        if UNITS[unit] > SECOND:
            unit = "s"
        return unit, _attoseconds(self.length) // UNITS[unit]

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        if self.of_dates:
            return {"length": int(self.length.astype(np.int64)), "unit": np.datetime_data(self.length)[0]}
        return {"length": self.length, "unit": None}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Periods":
        """Periods from :meth:`to_json`."""
        length, unit = values["length"], values["unit"]
        if unit is None:
            return cls.checked(length)
        check_count("length of a period", length)
        try:
            return cls.checked(np.timedelta64(length, unit))
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"The period is {length!r} {unit!r}, which is not a length of time.") from None

    def __str__(self) -> str:
        if not self.of_dates:
            return f"{self.length:,}"
        count, name = str(self.length).split()
        return f"{int(count):,} {name.removesuffix('s') if count == '1' else name}"


def _attoseconds(span: Any) -> int:
    """Exact length of a span of time."""
    unit, multiple = np.datetime_data(span)
    return int(span.astype(np.int64)) * multiple * UNITS[unit]


def _in_coarsest_unit(length: Any) -> Any:
    """The same span in the coarsest unit: 1 hour, not 3,600,000,000 microseconds."""
    attoseconds = _attoseconds(length)
    unit: Any = next(
        unit for unit in UNITS if unit != "W" and attoseconds % UNITS[unit] == 0
    )  # a week is shown as 7 days
    if attoseconds // min(UNITS[unit], SECOND) > FARTHEST:
        raise InputError(f"The period is {length!r}, which is longer than the range of dates. Use a shorter one.")
    return np.timedelta64(attoseconds // UNITS[unit], unit)


def _as_times(times: Any) -> Array:
    """An array of integers, floats or dates."""
    values = as_array(times, "times")
    if values.dtype == object:
        flat = [_as_date(value) if isinstance(value, datetime) else value for value in values.ravel()]
        if flat and all(isinstance(value, np.datetime64) for value in flat):
            values = np.array(flat).reshape(values.shape)
    if values.dtype.kind not in "iufM":
        raise InputError(f"Times must be numbers or dates, but have dtype {values.dtype}.")
    if values.dtype.kind == "u" and values.size and values.max() >= 2**63:
        raise InputError(f"A time is {values.max()}, which is too large.")
    return values


def _as_date(time: datetime) -> Any:
    """NumPy date in UTC; a date without a time zone is UTC."""
    if time != time:  # pandas' NaT is a datetime too
        return np.datetime64("NaT", "s")
    # Shifted as a NumPy date: Python's are limited to the years 1 to 9999.
    return np.datetime64(time.replace(tzinfo=None)) - np.timedelta64(time.utcoffset() or timedelta(0))


def _since_1970(dates: Array) -> Array:
    """Dates as spans since 1970 in their own unit; months and years, which have no fixed length, in days."""
    unit, multiple = np.datetime_data(dates.dtype)
    if unit == "generic":
        raise InputError("Dates have no unit. Give them as datetime64[s], for example.")
    if unit in ("Y", "M"):
        if _largest(dates) * multiple * (366 if unit == "Y" else 31) > FARTHEST:
            raise InputError("A time is so far from 1970 that dates overflow.")
        dates = dates.astype("M8[D]")
    spans: Array = dates.view(dates.dtype.str.replace("M8", "m8"))
    return spans


def _largest(values: Array) -> int:
    """Largest absolute value of integers."""
    integers = values.astype(np.int64)
    return max(abs(int(integers.min())), abs(int(integers.max())))


def _whole_quotients(spans: Array, length: Any) -> Integers:
    """Quotients of time spans, rounded down; NumPy's division wraps around if units are far apart."""
    unit, multiple = np.datetime_data(spans.dtype)
    one, divisor = multiple * UNITS[unit], _attoseconds(length)
    common = math.gcd(one, divisor)
    factor, divisor = one // common, divisor // common
    if max(1, _largest(spans)) * factor >= 2**63 - 1:
        raise InputError("The units of times and period are so far apart that they overflow. Give both in seconds.")
    # A divisor beyond int64 exceeds all times; so does the largest int64.
    quotients: Integers = np.floor_divide(spans.astype(np.int64) * factor, min(divisor, 2**63 - 1))
    return quotients
