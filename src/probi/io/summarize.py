"""The first pass: batches of a reader into a summary, with rejects and checkpoints."""

import contextlib
from collections.abc import Callable
from pathlib import Path

from probi.errors import InputError, StoppedError
from probi.io.checkpoint import Checkpoint, Saved
from probi.io.node_assembler import Batch, Counts, Position
from probi.io.prefetch import StoppedWaitingError
from probi.io.reader import Reader
from probi.io.reading import reading_of
from probi.io.recent_ids import Seen
from probi.io.rejects import Rejects
from probi.io.splits import Part
from probi.summary import Summary

SAME_AGAIN = "Name the same folder as before, or remove the checkpoint to start over."


def summarize(
    reader: Reader,
    summary: Summary,
    *,
    rejects: Path | None = None,
    checkpoint: Checkpoint | None = None,
    on_going_on: Callable[[Counts], None] = lambda counts: None,
    on_batch: Callable[[Batch], None] = lambda batch: None,
    is_stopped: Callable[[], bool] = lambda: False,
    part: Part | None = None,
) -> tuple[Summary, Counts]:
    """Read everything into a summary, or into that of a checkpoint; return it and the counts.

    The space, and what the columns mean, are left in ``summary.about``. ``is_stopped`` is asked after each batch; if it
    says so, a checkpoint is written and StoppedError is raised. Only the ``part`` is read, if one is given.
    """
    saved = checkpoint.load() if checkpoint is not None else None
    position, counts, rejected_size = part.start if part else Position(), Counts(), 0
    seen: Seen | None = None
    fraction: float | None = None
    if saved is not None:
        summary, position, counts, seen, fraction = (
            saved.summary, saved.position, saved.counts, saved.seen, saved.fraction
        )  # fmt: skip
        reader.go_on_in(saved.space, seen)
        rejected_size = _size_to_go_on_with(rejects, saved)
        on_going_on(counts)
    with contextlib.ExitStack() as stack:
        rejected = None if rejects is None else stack.enter_context(Rejects(rejects, rejected_size))
        batches = reader.batches(position, counts, is_stopped, part.stop if part else None)
        stack.callback(batches.close)  # type: ignore[attr-defined]

        def save() -> None:
            if checkpoint is None:
                return
            if rejected is not None:
                rejected.flush()
            size = None if rejected is None else rejected.size
            checkpoint.save(Saved(summary, position, counts, reader.space, size, seen, fraction))

        stopped = False
        try:
            for batch in batches:
                summary.update(batch.nodes)
                if rejected is not None:
                    rejected.write(batch.rejected)
                position, counts, fraction = batch.position, batch.counts, batch.fraction
                seen = batch.seen or seen
                on_batch(batch)
                stopped = is_stopped()
                if stopped:
                    break
                if checkpoint is not None and checkpoint.is_due(counts):
                    save()
        except StoppedWaitingError:
            stopped = True
        save()
        if stopped:
            raise StoppedError(f"Stopped after {counts.nodes:,} nodes ({counts.rows:,} rows).")
    summary.about |= {"space": reader.space.to_json(), "reading": reading_of(reader)}
    return summary, counts


def _size_to_go_on_with(rejects: Path | None, saved: Saved) -> int:
    """Size of the file of rejected rows at the checkpoint; an error if those rows are gone."""
    if rejects is None:
        return 0
    if saved.rejected_size is None:
        if saved.counts.rows > saved.counts.used:
            raise InputError(f"The checkpoint is of a run without {rejects}, which would now lack rows. {SAME_AGAIN}")
        return 0
    if saved.rejected_size and (not rejects.is_file() or rejects.stat().st_size < saved.rejected_size):
        raise InputError(f"{rejects} does not hold the rows that were left out before the checkpoint. {SAME_AGAIN}")
    return saved.rejected_size
