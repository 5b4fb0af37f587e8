"""What is kept of a stream of nodes: :class:`Summary` of all of it, :class:`Window` of its last periods."""

from probi.summary.summary import Summary as Summary
from probi.summary.window import Window as Window
