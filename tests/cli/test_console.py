"""What the command line shows while it works."""

import contextlib
import io
import re
import signal
import time

import pytest

from probi.cli import console


class Terminal(io.StringIO):
    def isatty(self):
        return True


@contextlib.contextmanager
def terminal(monkeypatch, patience=0.05):
    """What a terminal shows; set up inside the test, because pytest puts its own standard error back before it."""
    monkeypatch.setattr(console, "SHOW_AFTER_SECONDS", patience)
    monkeypatch.setenv("TERM", "xterm")
    with contextlib.redirect_stderr(Terminal()) as found:
        yield found


def test_a_bar_shows_itself_though_nothing_is_reported(monkeypatch):
    with terminal(monkeypatch) as found, console.Console().progress("Solving"):
        time.sleep(0.5)
    assert "Solving" in found.getvalue()


def test_rate_and_memory_are_shown(monkeypatch):
    with terminal(monkeypatch) as found, console.Console().progress("Reading") as bar:
        for n in range(10):
            time.sleep(0.05)
            bar.update(1000 * n, n / 10)
        time.sleep(0.3)
    assert re.search(r"[\d,]+ nodes, [\d,]+ per second, [\d,]+ MB", found.getvalue())


def test_what_a_solver_does_is_shown(monkeypatch):
    with terminal(monkeypatch) as found, console.Console().progress("Solving") as bar:
        time.sleep(0.3)
        for n in range(1000):
            bar.say(f"start {n} of 1000")
        time.sleep(0.3)
    assert re.search(r"start 0 of 1000, [\d,]+ MB", found.getvalue())
    assert "start 999" not in found.getvalue()  # nobody could read them all


def test_what_is_quick_shows_nothing(monkeypatch):
    with terminal(monkeypatch, patience=5.0) as found, console.Console().progress("Reading") as bar:
        bar.update(10, 0.5)
    assert found.getvalue() == ""


def test_quiet_shows_nothing(monkeypatch):
    with terminal(monkeypatch) as found, console.Console(quiet=True).progress("Reading") as bar:
        time.sleep(0.2)
        bar.update(10, 0.5)
    assert found.getvalue() == ""


def test_an_interrupt_that_a_library_swallows_ends_the_work_all_the_same():
    with console.Interrupts(console.Console(quiet=True), at_once=True) as interrupts:
        interrupts.check()
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it was not raised at once")
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


# -- tables -----------------------------------------------------------------------------------------------------------


def test_columns_of_a_table_end_together(capsys):
    console.print_table(["k", "経度", "e\u0301t\u00e9"], [["2", "1.5", "nan"], ["10", "-1,000", "3"]])
    assert capsys.readouterr().out.splitlines() == [
        " k     経度   e\u0301t\u00e9",
        "─" * 17,
        " 2      1.5   nan",
        "10   -1,000     3",
    ]


def test_a_table_where_lines_cannot_be_drawn():
    out = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    with contextlib.redirect_stdout(out):
        console.print_table(["x"], [["10"]])
    out.seek(0)
    assert out.read().split() == ["x", "--", "10"]
