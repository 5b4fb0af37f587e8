"""Progress of a solver: reported to listeners, which may stop it."""

from collections.abc import Callable
from typing import NamedTuple


class Step(NamedTuple):
    """What a solver has just done. It prints as a line.

    Attributes
    ----------
    what : str
        Which part of the work: "start", "swaps" or "nodes".
    number, total : int
        Of the starts, from 1.
    n_rounds : int
        Rounds in this part so far, or swaps tried; 0 while first centers are drawn.
    cost : float
        Of the centers so far; infinite before the first round.
    is_over : bool
        Whether this part of the work is done.
    """

    what: str
    number: int
    total: int
    n_rounds: int
    cost: float
    is_over: bool

    def __str__(self) -> str:
        """One line for people."""
        name, unit = {
            "start": (f"start {self.number} of {self.total}", "round"),
            "swaps": (f"swaps from start {self.number}", "swap"),
            "nodes": ("all realizations", "round"),
        }[self.what]
        if self.n_rounds == 0:
            return f"{name}: drawing centers"
        if self.is_over:
            return f"{name}: cost {self.cost:.6g} after {self.n_rounds} {unit}{'s' * (self.n_rounds != 1)}"
        return f"{name}, {unit} {self.n_rounds}: cost {self.cost:.6g}"


OnProgress = Callable[[Step], None]
# Called with the number of rounds so far and the cost.
OnRound = Callable[[int, float], None]


def silent(n_rounds: int, cost: float) -> None:
    """Report nothing."""


class Progress:
    """Reports the steps of a solver."""

    def __init__(self, on_progress: OnProgress | None = None, verbose: int = 0) -> None:
        self._on_progress, self._verbose = on_progress, verbose

    @property
    def has_listener(self) -> bool:
        """Whether anyone listens."""
        return self._on_progress is not None or bool(self._verbose)

    def report(self, step: Step) -> None:
        """Report a step: ``verbose`` 1 prints it if a part of the work is over, 2 always."""
        if self._verbose > 1 or (self._verbose and step.is_over):
            print(step, flush=True)
        if self._on_progress is not None:
            self._on_progress(step)

    def rounds(self, what: str, number: int = 1, total: int = 1) -> OnRound:
        """Return a function that reports rounds of a part of the work."""
        return lambda n_rounds, cost: self.report(Step(what, number, total, n_rounds, cost, False))

    def finish(self, what: str, number: int, total: int, n_rounds: int, cost: float) -> None:
        """Report that a part of the work is done."""
        self.report(Step(what, number, total, n_rounds, cost, True))
