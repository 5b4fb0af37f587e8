"""probi cluster --engine: the workers of an engine make the two passes over the files."""

import contextlib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass

from probi._files import AnyPath
from probi._notes import counted
from probi.cli.console import Console, Interrupts, Progress
from probi.cli.steps import check_counts
from probi.engines.engine import Engine, Files, OnPart
from probi.engines.tasks import Assign, Summarize, unpack_part
from probi.io.node_assembler import Counts
from probi.io.passes import RejectedFile, Tally
from probi.io.reader import Reader
from probi.io.write import assignment_file
from probi.solver.result import Result
from probi.summary import Summary
from probi.summary.config import SummaryConfig


@dataclass(frozen=True)
class Workers:
    """An engine that processes files."""

    console: Console
    engine: Engine
    reader: Reader
    files: Files
    interrupts: Interrupts

    def _shows(self, bar: Progress) -> OnPart:
        """Report a finished part, and stop if Ctrl-C was pressed."""

        def show(n_done: int, n: int) -> None:
            self.interrupts.check()
            bar.update(n_done, n_done / n)

        return show

    def summarize(self, config: SummaryConfig, rejects: AnyPath | None) -> tuple[Summary, Counts]:
        """Read the files once."""
        with self.console.progress("Reading", "parts") as bar:
            task = Summarize(config, keeps_rejected=rejects is not None)
            parts = self.engine.run(None, self.files, task)
            data = self.engine.merge(parts, task, self._shows(bar))
        self.interrupts.check()
        summary, stats = unpack_part(data)
        if rejects is not None:
            with RejectedFile(rejects) as file:
                file.write(stats.rejected)
        check_counts(self.console, self.reader, stats.counts, rejects)
        return summary, stats.counts

    def assign(self, solutions: list[Result], path: AnyPath) -> list[Tally]:
        """Read the files a second time and write the cluster of each node."""
        centers, distances = zip(*((one.centers, one.outlier_distance) for one in solutions), strict=True)
        with self.console.progress("Assigning", "parts") as bar, assignment_file(path) as file:
            return self.engine.assign_files(self.files, Assign(centers, distances), file.write, self._shows(bar))


@contextlib.contextmanager
def connected(
    name: str, workers: str | None, part_megabytes: int, console: Console, reader: Reader
) -> Iterator[Workers]:
    """Start an engine with a number of workers, or connect to its address, and report it."""
    files = Files.of(reader, part_megabytes << 20)
    module = importlib.import_module(f"probi.engines.{name}")
    with console.progress("Starting"):
        stack = contextlib.ExitStack()
        engine = stack.enter_context(module.connected(workers))
    with stack, Interrupts(console, at_once=True) as interrupts:
        console.say(f"{engine.description}: {counted(len(files.parts), 'part')}.")
        yield Workers(console, engine, reader, files, interrupts)
