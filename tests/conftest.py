"""Settings and fixtures that all tests share."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from strategies import USUAL

# No clock: the first call of a kernel compiles it, and a slow machine is no bug.
_NO_CLOCK = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# A red test stays red: the same examples in every run. To hunt for new ones: HYPOTHESIS_PROFILE=explore.
settings.register_profile("probi", max_examples=USUAL, derandomize=True, **_NO_CLOCK)
settings.register_profile("check", max_examples=7, derandomize=True, **_NO_CLOCK)
settings.register_profile("ci", max_examples=USUAL, derandomize=True, print_blob=True, **_NO_CLOCK)
settings.register_profile("explore", max_examples=2000, print_blob=True, **_NO_CLOCK)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "probi"))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder with the real data sets; a test that asks for it is skipped where there is none."""
    folder = os.environ.get("PROBI_DATA")
    if not folder:
        pytest.skip("set PROBI_DATA to the folder with the data sets")
    if not Path(folder).is_dir():
        pytest.skip(f"PROBI_DATA is {folder}, which is no folder")
    return Path(folder)


@pytest.fixture(scope="session")
def data_file(data_folder: Path) -> Callable[[str], Path]:
    """Return a function from the name of a data set to its path; it skips the test where the file is missing."""

    def path_of(name: str) -> Path:
        path = data_folder / name
        if not path.is_file():
            pytest.skip(f"no {name} in {data_folder}")
        return path

    return path_of
