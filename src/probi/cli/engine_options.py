"""probi cluster --engine: the workers of an engine make the two passes over the files."""

import contextlib
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from probi.cli.console import Console, Interrupts, Progress
from probi.cli.steps import check_counts
from probi.engines.tasks import Engine, Files, OnPart, Summarize, assign_parts, unpack_part
from probi.errors import InputError
from probi.io.checkpoint import Rejects
from probi.io.node_assembler import Counts
from probi.io.passes import Tally
from probi.io.reader import Reader
from probi.io.write import assignment_file
from probi.solver.result import Result
from probi.summary import Summary


@dataclass(frozen=True)
class Elsewhere:
    """The engine, its number of workers or address, and the size of a part."""

    engine: str
    workers_or_address: str | None
    part_megabytes: int

    @classmethod
    def checked(
        cls, engine: str, workers: str | None, part_megabytes: int, checkpoint: Path | None, shard: int = 0
    ) -> "Elsewhere | None":
        """Options of an engine; None for this process. Raises if options contradict each other."""
        if engine == "local":
            if workers is not None:
                raise InputError("--workers requires --engine dask or --engine spark.")
            return None
        if checkpoint is not None:
            raise InputError(
                f"--checkpoint requires --engine local: {engine} itself repeats the work of a lost worker."
            )
        if shard:
            raise InputError(f"--shard requires --engine local: {engine} numbers its parts itself.")
        if workers is not None and re.fullmatch(r"0+|-.*|\d+\.\d*", workers):
            raise InputError(f"--workers must be a positive integer or the address of a scheduler, got {workers}.")
        return cls(engine, workers, part_megabytes)

    @property
    def parameters(self) -> dict[str, object]:
        """The options on which the result depends."""
        return {"engine": self.engine, "part_size": self.part_megabytes}

    @contextlib.contextmanager
    def workers(self, console: Console, reader: Reader) -> Iterator["Workers"]:
        """Start the engine, or connect to it, and report its address."""
        files = Files.of(reader, self.part_megabytes << 20)
        module = importlib.import_module(f"probi.engines.{self.engine}.workers")
        with console.progress("Starting"):
            stack = contextlib.ExitStack()
            engine = stack.enter_context(module.connected(self.workers_or_address))
        with stack, Interrupts(console, at_once=True) as interrupts:
            n_parts = len(files.parts)
            console.say(f"{engine.description}: {n_parts:,} part{'s' * (n_parts != 1)}.")
            yield Workers(console, engine, reader, files, interrupts)


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

    def summarize(self, task: Summarize, rejects: Path | None) -> tuple[Summary, Counts]:
        """Read the files once."""
        with self.console.progress("Reading", "parts") as bar:
            task = replace(task, keeps_rejected=rejects is not None)
            data = self.engine.summarize(self.files, task, self._shows(bar))
        self.interrupts.check()
        summary, stats = unpack_part(data)
        if rejects is not None:
            with Rejects(rejects) as file:
                file.write(stats.rejected)
        check_counts(self.console, self.reader, stats.counts, rejects)
        return summary, stats.counts

    def assign(self, results: list[Result], path: Path) -> list[Tally]:
        """Read the files a second time and write the cluster of each node."""
        with self.console.progress("Assigning", "parts") as bar, assignment_file(path) as file:
            centers = [result.centers for result in results]
            return assign_parts(self.engine, self.files, centers, file.write, self._shows(bar))
