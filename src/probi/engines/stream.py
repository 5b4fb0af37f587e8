"""A stream of numbered batches in one summary, each batch counted once, for any engine."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from probi.engines.engine import Engine
from probi.engines.tasks import Summarize, unpack_part
from probi.errors import InputError
from probi.io.node_assembler import Counts, check_left_out
from probi.summary import Summary
from probi.summary.config import SummaryConfig


class SavedStream:
    """Summary of a stream, kept in a file that records the last batch and is replaced atomically.

    :meta private:
    """

    def __init__(
        self, engine: Engine, path: Any, n_clusters: int, random_state: int | None, options: dict[str, Any]
    ) -> None:
        self._engine, self._path, self._reading = engine, Path(path), options
        options["random_state"] = 0 if random_state is None else random_state
        self._config = SummaryConfig.taken_from(n_clusters, options)
        self._summary = Summary.load(self._path) if self._path.exists() else None
        if self._summary is not None:
            self._check_state(self._summary)

    @property
    def summary(self) -> Summary:
        """Summary of all batches so far."""
        if self._summary is None:
            return Summary.from_config(self._config)
        return self._summary.__copy__()

    def _check_state(self, summary: Summary) -> None:
        if "stream" not in summary.about:
            raise InputError(f"{self._path} is a summary, but not of a stream. Use another file.")
        known = summary._config.shared | {"seed": summary.about["stream"]["seed"]}
        for name, value in (self._config.shared | {"seed": self._config.seed}).items():
            if known[name] != value:
                raise InputError(
                    f"{self._path} has {name} {known[name]!r}, but {value!r} was requested. Use another file to start "
                    "over."
                )

    def _is_new(self, batch: int, query: str | None) -> bool:
        """Whether a batch was not added before."""
        state = {} if self._summary is None else self._summary.about["stream"]
        if state and state["query"] != query:
            raise InputError(
                f"{self._path} belongs to another query, whose batches have the same numbers. Use another file, or the "
                "checkpointLocation that belongs to it."
            )
        return not state or batch > state["batch"]

    def _add(self, frame: Any, batch: int, query: str | None) -> None:
        """Add a batch in the scales of earlier ones, and save; None is a batch without rows."""
        summary = self.summary
        # Shard 0 is the empty summary, because the first batch may be empty.
        shard = summary.about.get("stream", {}).get("next_shard", 1)
        if frame is not None:
            task = Summarize(self._config.for_shard(shard))
            how = self._engine.open(frame, self._reading, summary.about.get("space"))
            new, stats = unpack_part(self._engine.merge(self._engine.run(frame, how, task), task))
            # Over the whole stream: a batch may be small.
            counts = Counts(**summary.about.get("counts", {})) + stats.counts
            check_left_out(counts, how.options)
            summary.merge(new)
            summary.about |= {"space": new.about["space"], "counts": asdict(counts)}
            shard += stats.n_parts
        summary.about["stream"] = {
            "query": query, "batch": batch, "next_shard": shard, "seed": self._config.seed
        }  # fmt: skip
        summary.save(self._path)
        self._summary = summary
