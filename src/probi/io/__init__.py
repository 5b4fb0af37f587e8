"""Files and streams of nodes: readers, writers, checkpoints."""

from probi.io.assemble import Batch
from probi.io.reader import Reader, read
from probi.io.space import Space

__all__ = ["Batch", "Reader", "Space", "read"]
