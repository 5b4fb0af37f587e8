"""Inputs that once failed, or reach distinct places, are refused in words or hold the same when written anew."""

import importlib.util

import pytest

from fuzz.limits import check
from fuzz.seeds import CORPUS, SEEDS
from fuzz.targets import TARGETS, FindingError

NEEDS = {"netcdf": ("xarray", "h5netcdf"), "zarr": ("xarray", "zarr")}
SLOW = {"summary", "checkpoint", "centers", "netcdf", "zarr"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in TARGETS])
def test_the_corpus(name):
    if missing := [package for package in NEEDS.get(name, ()) if importlib.util.find_spec(package) is None]:
        pytest.skip(f"{missing[0]} is not installed")
    assert any(TARGETS[name](seed) for seed in SEEDS[name]())  # and kernels are compiled before time is measured
    inputs = sorted((CORPUS / name).iterdir())
    assert inputs
    for path in inputs:
        try:
            check(name, path.read_bytes())
        except Exception as error:
            raise AssertionError(f"{path} is not refused as it should be") from error


def test_what_is_written_anew_is_compared(monkeypatch):
    write = TARGETS["csv"].func.__globals__["write_nodes"]
    monkeypatch.setitem(
        TARGETS["csv"].func.__globals__,
        "write_nodes",
        lambda path, parts, *others, **options: write(path, [part.take([0]) for part in parts], *others, **options),
    )
    with pytest.raises(FindingError, match="when written anew"):
        check("csv", b"\x00x,y\n1,2\n3,4\n")


def test_time_and_memory_are_limited(monkeypatch):
    monkeypatch.setitem(TARGETS, "csv", lambda data: len(b"1" * 50_000_000) == 0)
    assert not check("csv", b"")
    for limit, most in (("MEGABYTES", 20), ("SECONDS", -1)):
        with monkeypatch.context() as patch:
            patch.setattr(f"fuzz.limits.{limit}", most)
            with pytest.raises(FindingError, match="it took"):
                check("csv", b"")
