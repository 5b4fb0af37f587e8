"""--help teaches: every command has examples, all of them can be typed; completion knows the commands."""

import os
import re
import shlex

import pytest
import typer.main
from commands import probi, probi_process

from probi import __version__
from probi.cli import app

GROUP = typer.main.get_command(app.make_app())
COMMANDS = ("cluster", "summarize", "merge", "solve", "assign", "evaluate", "info", "check", "convert", "demo")
HINT = re.compile(r"^(?:[^|]*\| )?probi ")


def examples():
    """Every line of the examples of every command."""
    found = []
    for name in COMMANDS:
        lines = (GROUP.commands[name].epilog or "").split("\n\n")
        found += [(name, line.strip().replace("\\[", "[")) for line in lines[1:]]
    return found


@pytest.fixture(autouse=True)
def plain_and_narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def test_the_commands(capsys):
    assert tuple(GROUP.commands) == COMMANDS
    ran = probi(capsys, "--help")
    assert ran.code == 0
    assert ran.err == ""
    for name in COMMANDS:
        assert re.search(rf"^. {name}\b", ran.out, re.M)
    assert "Exit codes" in ran.out


def test_no_arguments_show_the_help(capsys):
    ran = probi(capsys)
    assert "Usage: probi" in ran.out + ran.err


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_has_examples_and_fits(capsys, name, option):
    ran = probi(capsys, name, option)
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= 80
    text = " ".join(ran.out.split())
    mine = [line for command, line in examples() if command == name]
    assert mine
    for line in mine:
        assert line in text
        assert f"probi {name}" in line or name == "summarize"
    for parameter in GROUP.commands[name].params:
        assert parameter.help or parameter.name == "help", parameter.name


@pytest.mark.slow
def test_nothing_in_the_help_is_cut_off(capsys):
    """Rich shortens what does not fit with an ellipsis: an option that cannot be read cannot be typed."""
    cut = {name: re.findall(r"\S*…", probi(capsys, name, "--help").out) for name in COMMANDS}
    assert {name: words for name, words in cut.items() if words} == {}


@pytest.mark.parametrize(("name", "line"), examples())
def test_examples_can_be_typed(name, line):
    """Options exist and values are of the right kind: typer reads them, and nothing is run."""
    assert HINT.match(line)
    words = shlex.split(line[line.index("probi ") :])
    command = GROUP.commands[words[1]]
    context = command.make_context(words[1], words[2:])
    assert context.params


def test_the_version(capsys):
    assert probi(capsys, "--version") == (0, f"probi {__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("unknown",),
        ("cluster",),
        ("cluster", "x.csv"),
        ("cluster", "x.csv", "-k", "2", "--colour"),
        ("cluster", "x.csv", "-k", "2", "--layout", "round"),
        ("cluster", "x.csv", "-k", "2", "--seed", "-1"),
        ("cluster", "x.csv", "-k", "2", "--checkpoint-every", "0"),
        ("assign", "x.csv", "--centers", "y.csv"),
        ("merge", "-o", "x.probi"),
    ],
)
def test_options_that_cannot_be_used(capsys, arguments):
    ran = probi(capsys, *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert "Usage: probi" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("probi ", COMMANDS),
        ("probi con", ("convert",)),
        ("probi cluster --layout ", ("points", "groups", "long", "nested")),
        ("probi convert --to ", ("points", "groups", "long", "nested")),
        ("probi cluster --missing skip", ("skip-row", "skip-node")),
        ("probi cluster --check", ("--checkpoint", "--checkpoint-every")),
    ],
)
def test_completion(monkeypatch, capsys, words, offered):
    monkeypatch.setenv("_PROBI_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert set(probi(capsys).out.split()) == set(offered)


@pytest.mark.process
def test_the_script_of_the_completion():
    # Without the variable, typer takes the shell from the parent processes, where there may be none.
    variables = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    ran = probi_process("--show-completion", "bash", env=variables)
    assert ran.code == 0
    assert "complete_bash" in ran.out
