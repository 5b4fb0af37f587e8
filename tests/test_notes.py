"""What users are told: memory and versions."""

import pytest

from probi import __version__
from probi._notes import peak_megabytes, versions
from probi.cli.console import memory_megabytes


@pytest.mark.slow
def test_peak_memory_is_that_of_this_process():
    before = peak_megabytes()
    block = bytearray(b"x") * 100_000_000
    assert peak_megabytes() >= max(before, 100.0)
    assert memory_megabytes() <= peak_megabytes() * 1.01
    del block


def test_versions_are_those_of_the_packages_that_are_used():
    import numpy

    known = versions()
    assert (known["probi"], known["numpy"]) == (__version__, numpy.__version__)
    assert list(known) == ["probi", "python", "numpy", "numba", "pyarrow"]
