"""Before anything imports Numba: a cache folder that belongs to these kernels (see tools/kernel_cache.py).

Then which tests run where, and the sessions of Spark and Dask that all of them share. It stands at the root, not in
tests/, because the examples in src/ and on the pages run kernels and engines too.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from kernel_cache import cache_folder

os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder()))

# Marks of tests that share something expensive, in the order in which their groups start: the longest first.
SHARING = ("spark", "dask", "browser")
# Examples that need an engine, by what is in the path of their file.
ENGINES_OF_EXAMPLES = {
    "/engines/spark/": "spark",
    "/engines/dask/": "dask",
    "/docs/dask.md": "dask",
    "/docs/guide/scaling-out.md": "dask",
}

# Settings of the site, and what is made when it is built: no examples of ours.
collect_ignore_glob = ["docs/*.py", "docs/_*", "docs/gallery/*", "docs/reference/generated/*"]


def pytest_xdist_auto_num_workers() -> int:
    """Processes of -n auto: one for each core that may be used, also where two of them share a physical one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark examples that need an engine; say what runs in one process, and what starts first.

    With --dist loadgroup all that needs Spark runs in one process and shares one session, the same for Dask and for the
    browser; of the rest a file is a group, because it shares its fixtures. Long groups start first: a long one that
    starts last is waited for.
    """
    ranks: dict[str, int] = {}
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            for part, engine in ENGINES_OF_EXAMPLES.items():
                if part in item.path.as_posix():
                    item.add_marker(engine)
        marks = {mark.name for mark in item.iter_markers()}
        group = next((name for name in SHARING if name in marks), item.path.as_posix())
        item.add_marker(pytest.mark.xdist_group(group))
        rank = SHARING.index(group) if group in SHARING else len(SHARING) + marks.isdisjoint({"slow", "process"})
        ranks[group] = min(rank, ranks.get(group, rank))
    items.sort(key=lambda item: ranks[item.get_closest_marker("xdist_group").args[0]])


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The Spark session that all tests and examples of a process share; where it cannot be, they are skipped."""
    from engines import spark_sessions

    spark_sessions.need_spark()
    with spark_sessions.session("local[2]") as started:
        yield started


@pytest.fixture(autouse=True)
def _names_in_examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    """Examples on Spark know the session as it is called everywhere."""
    if isinstance(request.node, pytest.DoctestItem) and request.node.get_closest_marker("spark"):
        doctest_namespace["spark"] = request.getfixturevalue("spark")
