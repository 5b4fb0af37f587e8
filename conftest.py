"""Before anything imports Numba: a cache folder that belongs to these kernels (see tools/kernel_cache.py).

Then which tests run where, and the sessions of Spark and Dask that all of them share. It stands at the root, not in
tests/, because the examples in src/ and on the pages run kernels and engines too.
"""

import gc
import os
import re
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_cache import cache_folder

os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder()))
# A test that needs one kernel more does not start a process that compiles all others.
os.environ.setdefault("PROBI_COMPILE_AHEAD", "0")
# No test cuts the power: files of this process need not reach the disk, which takes 5 ms each. Tests of what is flushed
# when put their own function here; processes that tests start flush as usual.
os.fsync = lambda handle: None

# Thousands of small files are written and removed: in memory, where there is room for them. It takes 3 ms to remove one
# from a busy disk.
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Files whose tests share something expensive, by what is in their path; the group that takes longest stands first.
SHARING = {"spark": ("/engines/test_spark", "/engines/spark.py"), "dask": ("/engines/test_dask", "/engines/dask.py")}
# Pages with examples that need an engine.
PAGES = {"docs/dask.md": "dask", "docs/guide/scaling-out.md": "dask"}
# Pages whose examples take longer than most tests.
SLOW_PAGES = (
    "docs/contributing/how-to.md", "docs/guide/choosing-k.md", "docs/guide/error-bars.md", "docs/guide/modelling.md",
    "docs/guide/scientific-data.md", "docs/guide/streams.md",
)  # fmt: skip

# Settings of the site, and what is made when it is built: no examples of ours.
collect_ignore_glob = ["docs/*.py", "docs/_*", "docs/gallery/*", "docs/reference/generated/*"]


def group_of(file: str) -> str:
    """What runs in one process: all files that need the same engine; else a file, because it shares its fixtures."""
    return PAGES.get(file) or next((name for name, parts in SHARING.items() if any(p in file for p in parts)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Processes of -n auto: one more than cores, where tests start processes and wait for a quarter of the time."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return n_cores + ("process" not in left_out(config))


def left_out(config: pytest.Config) -> set[str]:
    """Marks of tests that are not wanted, where -m says nothing else than these."""
    chosen = config.option.markexpr
    return set(re.findall(r"not (\w+)", chosen)) if re.fullmatch(r"not \w+( and not \w+)*", chosen) else set()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import neither helpers of tests, which have no examples, nor tests that are all left out, as those of Dask."""
    if collection_path.suffix != ".py":
        return None
    is_helper = collection_path.is_relative_to(config.rootpath / "tests") and not collection_path.match("test_*")
    of_file = re.search(r"^pytestmark = pytest\.mark\.(\w+)$", collection_path.read_text("utf-8"), re.MULTILINE)
    marks = {group_of(collection_path.as_posix()), of_file and of_file[1]}
    return is_helper or not marks.isdisjoint(left_out(config)) or None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist loadfile, files of an engine go to one process: they share its session.

    Not xdist's own loadgroup: with pytest 9 it does not see the groups, and says nothing.
    """
    from xdist.scheduler import LoadFileScheduling

    class LoadGroups(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(super()._split_scope(nodeid))

    return LoadGroups(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)  # before others select by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark examples that need an engine, and put long groups first: one that starts last is waited for."""
    ranks: dict[str, int] = {}
    for item in items:
        group = group_of(item.nodeid.partition("::")[0])
        if isinstance(item, pytest.DoctestItem) and group in SHARING:
            item.add_marker(group)
        if group in SLOW_PAGES:
            item.add_marker("slow")
        if group == "spark":
            # PySpark 3.5 leaves its sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
        marks = {mark.name for mark in item.iter_markers()}
        rank = [*SHARING].index(group) if group in SHARING else 2 + marks.isdisjoint({"browser", "process", "slow"})
        ranks[group] = min(rank, ranks.get(group, rank))
    # A session with executors of its own ends before that of all others starts.
    items.sort(key=lambda item: (ranks[group_of(item.nodeid.partition("::")[0])], "spark_cluster" not in item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Modules and tests stay to the end: the garbage collector, which some tests call, need not look at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The Spark session that tests and examples of a process share; where it cannot be, they are skipped."""
    from engines import spark_sessions

    spark_sessions.need_spark()
    with spark_sessions.session(spark_sessions.THREADS) as started:
        yield started


@pytest.fixture(autouse=True)
def _names_in_examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    """Examples on Spark know the session as it is called everywhere."""
    if isinstance(request.node, pytest.DoctestItem) and request.node.get_closest_marker("spark"):
        doctest_namespace["spark"] = request.getfixturevalue("spark")
