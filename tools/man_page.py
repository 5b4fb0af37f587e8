"""The manual page of the command line, made from the commands themselves.

python tools/man_page.py > docs/reference/probi.1
"""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer.main
from cli_reference import shown_argument

from probi.cli.app import make_app

MARKUP = re.compile(r"\\(?=\[)")  # what rich needs before a bracket


def page() -> str:
    """The whole page, in the macros of man(7)."""
    group: Any = typer.main.get_command(make_app())
    lines = [
        '.\\" Made by tools/man_page.py.',
        '.TH PROBI 1 "" "probi" "User commands"',
        ".SH NAME", "probi \\- cluster uncertain data that arrives in a stream",
        ".SH SYNOPSIS", ".B probi", ".I COMMAND", "[\\fIOPTIONS\\fR] ...",
        ".SH DESCRIPTION", *_prose(group.help),
        ".SH OPTIONS", *_options(group.params),
        ".SH COMMANDS",
    ]  # fmt: skip
    for name, command in group.commands.items():
        lines += _command(name, command)
    lines += [".SH EXIT STATUS", "0 on success, 2 if options or data are wrong, 1 for other errors or if stopped."]
    return "\n".join(lines) + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = [_escaped(shown_argument(p)) for p in command.params if p.param_type_name == "argument"]
    yield f".SS probi {name} [\\fIOPTIONS\\fR] {' '.join(arguments)}".rstrip()
    yield from _prose(command.help)
    yield from _options(command.params)
    examples = [line.strip() for line in (command.epilog or "").split("\n\n")[1:]]
    if examples:
        yield from (".PP", "Examples:", ".nf", ".RS", *map(_escaped, examples), ".RE", ".fi")


def _options(params: list[Any]) -> Iterator[str]:
    for param in params:
        if param.hidden or not getattr(param, "help", None):
            continue
        if param.param_type_name == "argument":
            names = f"\\fI{_escaped(shown_argument(param))}\\fR"
        else:
            names = ", ".join(f"\\fB{_escaped(name)}\\fR" for name in (*param.opts, *param.secondary_opts))
            names += "" if getattr(param, "is_flag", False) else f" \\fI{_escaped(param.metavar or 'VALUE')}\\fR"
        yield from (".TP", names, _escaped(" ".join(param.help.split())))


def _prose(text: str) -> Iterator[str]:
    for i, part in enumerate(inspect.cleandoc(text).split("\n\n")):
        if i:
            yield ".PP"
        yield _escaped(" ".join(part.split()))


def _escaped(text: str) -> str:
    """Text that roff shows as it is: no escapes, no requests, and hyphens that can be copied."""
    text = MARKUP.sub("", text).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    print(page(), end="")
