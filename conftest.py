"""Before anything imports Numba: a cache folder that belongs to these kernels (see tools/kernel_cache.py).

It stands at the root, not in tests/, because the examples in src/ and in the README run kernels too.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from kernel_cache import cache_folder

os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder()))

# Settings of the site, and what is made when it is built: no examples of ours.
collect_ignore_glob = ["docs/*.py", "docs/_*", "docs/gallery/*", "docs/reference/generated/*"]


@pytest.fixture(scope="session")
def _session_of_examples() -> Iterator[Any]:
    """The Spark session of examples; where it cannot be, they are skipped."""
    from engines import spark_sessions

    spark_sessions.need_spark()
    with spark_sessions.session("local[1]") as started:
        yield started


@pytest.fixture(autouse=True)
def _names_in_examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    """Examples on Spark know the session as it is called everywhere."""
    if isinstance(request.node, pytest.DoctestItem) and "/engines/spark/" in request.node.path.as_posix():
        doctest_namespace["spark"] = request.getfixturevalue("_session_of_examples")
