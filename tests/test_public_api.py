"""What others build on: public names and their parameters, as the list in the documentation has them."""

from pathlib import Path

import pytest

LIST = Path(__file__).resolve().parent.parent / "docs" / "reference" / "public_api.txt"


@pytest.mark.slow
def test_public_names_and_parameters_are_those_of_the_list():
    """Red: a name, a parameter, its order or its default is another. If that is meant, record it as LIST says."""
    for package in ("dask", "distributed", "pyspark", "xarray"):
        pytest.importorskip(package)
    from public_api import public_api

    header, *expected = LIST.read_text("utf-8").splitlines()
    assert header.startswith("# python tools/public_api.py")
    assert public_api() == expected
