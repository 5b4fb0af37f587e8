"""The reference of the command line, as a page in Markdown made from the commands themselves; as a script, print it.

So `probi --help` and the site cannot disagree: both show what stands in `src/probi/cli/`.
"""

import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
import typer.main

from probi.cli.app import make_app

INTRODUCTION = """\
<!-- Made by tools/cli_reference.py when the site is built. -->

# Command line

{help}

`probi COMMAND --help`, or `-h`, shows the same in the terminal; `man probi` does where pip installed the manual page.
`probi --install-completion` makes the Tab key complete commands and options in bash, zsh, fish and PowerShell, from the
next shell on.

| command | what it does |
| --- | --- |
{commands}
"""

# Names of types that a user of a terminal knows.
TYPES = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "PATH"}

# An option in a help text, which the terminal shows as it is.
OPTION = re.compile(r"(?<![\w`-])(--?[a-z][a-z-]*)")


def page() -> str:
    """The whole page."""
    app = make_app()
    group: Any = typer.main.get_command(app)
    annotations = {
        info.callback.__name__: _annotations(info.callback) for info in app.registered_commands if info.callback
    }
    rows = [f"| [`probi {name}`](#probi-{name}) | {_cell(_summary(c))} |" for name, c in group.commands.items()]
    parts = [INTRODUCTION.format(help=_prose(group.help), commands="\n".join(rows))]
    parts += list(_tables([p for p in group.params if not p.hidden], {}))
    for name, command in group.commands.items():
        parts += _section(name, command, annotations[name])
    return "\n\n".join(part.strip() for part in parts) + "\n"


def write(path: Path) -> None:
    """Write the page, unless it stands there already: an untouched page is not built again."""
    text = page()
    if not path.is_file() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def _annotations(callback: Any) -> dict[str, Any]:
    """Types of a command's parameters, by name, without what typer is told about them."""
    found = {}
    for name, parameter in inspect.signature(callback, eval_str=True).parameters.items():
        annotation = parameter.annotation
        found[name] = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return found


def _section(name: str, command: Any, annotations: dict[str, Any]) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([f"probi {name}", "[OPTIONS]", *(shown_argument(p) for p in arguments)])
    yield f"## probi {name}"
    yield f"```text\n{usage}\n```"
    yield _prose(command.help)
    yield from _tables([p for p in command.params if not p.hidden], annotations)
    examples = [line.strip().replace("\\[", "[") for line in (command.epilog or "").split("\n\n")[1:]]
    if examples:
        yield "**Examples**"
        yield "```console\n" + "\n".join(f"$ {line}" for line in examples) + "\n```"


def _tables(params: list[Any], annotations: dict[str, Any]) -> Iterator[str]:
    """A table for each panel of the help."""
    panels: dict[str, list[Any]] = {}
    for param in params:
        kind = "Arguments" if param.param_type_name == "argument" else param.rich_help_panel or "Options"
        panels.setdefault(kind, []).append(param)
    for title, members in panels.items():
        head = ("argument" if title == "Arguments" else "option", "value", "meaning")
        rows: list[tuple[str, ...]] = [
            head,
            ("---",) * 3,
            *(_row(param, annotations.get(param.name)) for param in members),
        ]
        if title == "Arguments":  # each is its own value
            rows = [(name, meaning) for name, _, meaning in rows]
        lines = [f"| {' | '.join(cells)} |" for cells in rows]
        yield f"**{title}**"
        yield "\n".join(lines)


def _row(param: Any, annotation: Any) -> tuple[str, str, str]:
    if param.param_type_name == "argument":
        names = f"`{param.metavar or param.name.upper()}`"
    else:
        names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    meaning = param.help or ""
    default = param.default
    if default is not None and default is not False and not param.secondary_opts and default != []:
        meaning += f" Default: `{default}`."
    elif param.secondary_opts and default is not None:
        meaning += f" Default: `{(param.opts if default else param.secondary_opts)[0]}`."
    required = " **Required.**" if param.required else ""
    return names, _value(param, annotation), _cell(meaning) + required


def _value(param: Any, annotation: Any) -> str:
    """What is written behind the option."""
    if getattr(param, "is_flag", False):
        return ""
    kind = _without_none(annotation)
    if get_origin(kind) is Literal:
        return " ".join(f"`{choice}`" for choice in get_args(kind))
    if param.metavar:
        return f"`{param.metavar}`"
    return f"`{TYPES[kind]}`" if kind in TYPES else ""


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = [kind for kind in get_args(annotation) if kind is not type(None)]
    return annotation


def shown_argument(param: Any) -> str:
    """An argument in the line of its command; one that can be given several times has dots."""
    return str(param.metavar or param.name.upper()) + ("..." if param.nargs == -1 else "")


def _summary(command: Any) -> str:
    return _prose(command.help).split("\n\n")[0]


def _prose(text: str) -> str:
    """Paragraphs of a help text, with options as code."""
    return "\n\n".join(_code(" ".join(part.split())) for part in inspect.cleandoc(text).split("\n\n"))


def _cell(text: str) -> str:
    """Text for a cell of a table: a bar would end it, and a star would begin something."""
    return _code(" ".join(text.split()).replace("|", "\\|").replace("*", "\\*"))


def _code(text: str) -> str:
    """Text with the options that it names as code."""
    return OPTION.sub(r"`\1`", text)


if __name__ == "__main__":
    print(page(), end="")
