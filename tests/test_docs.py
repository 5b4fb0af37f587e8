"""The reference is whole: every public name stands in it, explained, with an example; links lead somewhere."""

import dataclasses
import importlib
import inspect
import itertools
import pkgutil
import re
from pathlib import Path

import cli_reference
import pytest
import typer.main

import probi
from probi.cli import app

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"

# Checks of numpydoc that are left out, and why.
LEFT_OUT = {
    "ES01": "a summary that says it all needs no second paragraph",
    "GL01": "the text begins behind the quotes, as everywhere in this code",
    "GL02": "and a short one ends before them",
    "GL03": "ruff looks at blank lines",
    "SA01": "most names have no relatives that one would not find",
    "SA04": "names in See Also may speak for themselves",
    "SS02": "k-median and float32 begin a sentence as they are",
    "SS05": "'Expected distance of ...' says more than 'Compute the expected distance of ...'",
    "SS06": "ruff looks at the length of lines",
    "PR08": "'None: equal ones' and 'k-median' are good beginnings",
    "PR09": "descriptions that are a formula or a list end with none",
    "RT04": "as PR08",
    "RT05": "as PR09",
}
# What a docstring says that belongs to no reference: a method that modules of probi share, and users do not need.
PRIVATE = ":meta private:"


def public_modules():
    """Modules that say what of theirs is public."""
    yield probi
    for found in pkgutil.walk_packages(probi.__path__, "probi."):
        if not any(part.startswith("_") for part in found.name.split(".")):
            module = importlib.import_module(found.name)
            if hasattr(module, "__all__"):
                yield module


def public_names():
    """Public names, as they are imported, and what they are."""
    for module in public_modules():
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)


def members(kind):
    """Public methods and properties that a class has from probi."""
    found = {}
    for ancestor in reversed(kind.__mro__):
        if ancestor.__module__.startswith("probi"):
            found |= {
                name: value
                for name, value in vars(ancestor).items()
                if not name.startswith("_") and (isinstance(value, OF_CLASSES) or inspect.isfunction(value))
            }
    return {name: value for name, value in found.items() if PRIVATE not in (getattr(value, "__doc__", None) or "")}


OF_CLASSES = (property, classmethod, staticmethod)
NAMES = dict(public_names())
MEMBERS = {
    f"{name}.{member}": value
    for name, kind in NAMES.items()
    if inspect.isclass(kind)
    for member, value in members(kind).items()
}


def test_there_are_names():
    modules = {module.__name__ for module in public_modules()}
    assert modules >= {"probi", "probi.geo", "probi.io", "probi.report", "probi.engines.dask", "probi.engines.spark"}
    assert {"probi.Nodes", "probi.Window", "probi.solve", "probi.io.read", "probi.geo.to_sphere"} <= set(NAMES)
    assert {"probi.Nodes.thin", "probi.Summary.mass", "probi.PLloyd.predict", "probi.Nodes.from_points"} <= set(MEMBERS)
    assert "probi.Nodes.statistic" not in MEMBERS


# -- docstrings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NAMES, *MEMBERS])
def test_docstrings_are_valid(name):
    validate = pytest.importorskip("numpydoc.validate")
    thing = (NAMES | MEMBERS)[name]
    found = [error for error in validate.validate(name)["errors"] if error[0] not in LEFT_OUT]
    if isinstance(thing, property):  # one line that says what it is; the example is that of the class
        found = [error for error in found if error[0] not in ("EX01", "RT01")]
    if has_fields(thing):  # which are its attributes, and explained as such
        assert set(fields(thing)) <= attributes(thing)
        found = [error for error in found if error[0] != "PR01"]
    # The type of a parameter that is explained elsewhere stands there.
    found = [error for error in found if not (error[0] == "PR04" and named(error) in explained_elsewhere(thing))]
    assert found == []


def has_fields(thing):
    """Whether a class explains its fields as attributes; an estimator explains its parameters."""
    is_estimator = hasattr(thing, "get_params")
    return inspect.isclass(thing) and (
        (dataclasses.is_dataclass(thing) and not is_estimator) or hasattr(thing, "_fields")
    )


def fields(kind):
    return [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields


def attributes(kind):
    """Names under Attributes; several may share a line."""
    from numpydoc.docscrape import ClassDoc

    lines = ClassDoc(kind)["Attributes"]
    return set(itertools.chain.from_iterable(line.name.split(", ") for line in lines))


def named(error):
    return re.search(r'"(.*)"', error[1])[1]


def explained_elsewhere(thing):
    """Parameters of which it is said that they are as in another function."""
    from numpydoc.docscrape import NumpyDocString

    lines = NumpyDocString(inspect.getdoc(thing) or "")["Parameters"]
    found = [line for line in lines if not line.type and " ".join(line.desc).startswith("As in :")]
    return set(itertools.chain.from_iterable(line.name.split(", ") for line in found))


# -- the reference ----------------------------------------------------------------------------------------------------


def in_the_reference():
    """Names in the lists of the reference, in full."""
    module, inside = "", False
    for line in (DOCS / "reference" / "index.md").read_text("utf-8").splitlines():
        if line.startswith(".. currentmodule::"):
            module = line.split()[-1]
        elif line.startswith(".. autosummary::"):
            inside = True
        elif not line.startswith(" ") and line:
            inside = False
        elif inside and line.strip() and not line.strip().startswith(":"):
            yield f"{module}.{line.strip()}"


def test_every_public_name_stands_in_the_reference_once():
    assert sorted(in_the_reference()) == sorted(NAMES)


# -- the command line -------------------------------------------------------------------------------------------------

GROUP = typer.main.get_command(app.make_app())


def sections():
    """The page of the command line, by heading."""
    parts = re.split(r"^## ", cli_reference.page(), flags=re.M)
    return {"": parts[0]} | {part.split("\n")[0]: part for part in parts[1:]}


@pytest.mark.slow
def test_every_command_has_a_section():
    assert list(sections()) == ["", *(f"probi {name}" for name in GROUP.commands)]
    for name, command in GROUP.commands.items():
        assert f"[`probi {name}`](#probi-{name})" in sections()[""]
        summary = " ".join(command.help.split("\n\n")[0].split())
        for text in (sections()[""], sections()[f"probi {name}"]):
            assert summary in text.replace("`", "")


@pytest.mark.parametrize("name", ["", *GROUP.commands])
def test_every_option_is_on_the_page(name):
    command = GROUP.commands[name] if name else GROUP
    text = sections()[f"probi {name}" if name else ""]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    shown = [param for param in command.params if not param.hidden]
    assert len(rows) == len(shown)
    for param in shown:
        names = (
            [param.metavar or param.name.upper()]
            if param.param_type_name == "argument"
            else [*param.opts, *param.secondary_opts]
        )
        cell = ", ".join(f"`{option}`" for option in names)
        (row,) = [row for row in rows if row.startswith(f"| {cell} |")]
        assert " ".join(param.help.split()) in row.replace("`", "").replace("\\", "")
        assert ("**Required.**" in row) == bool(param.required)


@pytest.mark.slow
def test_choices_defaults_and_examples_are_on_the_page():
    text = sections()["probi cluster"]
    assert "| `--layout` | `points` `groups` `long` `nested` |" in text
    assert "| `--seed` | `N` | Seed; the same one gives the same bits. Default: `0`. |" in text
    assert "Default: `--assign`." in text
    assert "probi cluster [OPTIONS] FILE..." in text
    for name, command in GROUP.commands.items():
        for line in (command.epilog or "").split("\n\n")[1:]:
            assert line.strip().replace("\\[", "[") in sections()[f"probi {name}"]


def test_the_page_is_written_once(tmp_path):
    path = tmp_path / "cli.md"
    cli_reference.write(path)
    before = path.stat().st_mtime_ns
    cli_reference.write(path)
    assert path.stat().st_mtime_ns == before
    assert path.read_text("utf-8") == cli_reference.page()


# -- links ------------------------------------------------------------------------------------------------------------

# Pages that are made when the site is built.
MADE = ("docs/reference/cli.md", "docs/reference/generated/", "docs/gallery/", "docs/_build/")
PAGES = [
    path
    for path in sorted([*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md"), *(REPOSITORY / "changes").glob("*.md")])
    if not path.relative_to(REPOSITORY).as_posix().startswith(MADE)
]
LINK = re.compile(r"(?<!\\)\]\(<?([^()\s<>]*(?:\([^()]*\))?[^()\s<>]*)>?(?:\s+\"[^\"]*\")?\)|(?:src|href)=\"([^\"]*)\"")
CODE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?^\1[ \t]*$|(?<!`)`[^`\n]+`(?!`)", re.M | re.S)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.M)
TARGET = re.compile(r"^\(([\w-]+)\)=|\{#([\w-]+)\}|<a (?:id|name)=\"([\w-]+)\"", re.M)


def links_of(text):
    return [a or b for a, b in LINK.findall(CODE.sub("", text))]


def anchors_of(text):
    """Places of a page that a link may lead to: headings as GitHub and the site name them, and explicit targets."""
    plain = re.sub(r"^(`{3,}|~{3,})[^\n]*\n.*?^\1[ \t]*$", "", text, flags=re.M | re.S)
    found, seen = {name for names in TARGET.findall(text) for name in names if name}, {}
    for title in HEADING.findall(plain):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
        found.add(slug if slug not in seen else f"{slug}-{seen[slug]}")
        seen[slug] = seen.get(slug, 0) + 1
    return found


def problem_of(page, link):
    """Why a link leads nowhere; None if it leads somewhere, or out of the repository."""
    if re.match(r"[a-z][a-z+.-]*:", link):
        return None
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(REPOSITORY):
        return "leaves the repository"
    name = target.relative_to(REPOSITORY).as_posix()
    if name == "docs/reference/cli.md":
        text = cli_reference.page()
    elif name.startswith(MADE):
        return None
    elif not target.exists():
        return "there is no such file"
    elif not anchor or target.suffix != ".md":
        return None
    else:
        text = target.read_text("utf-8")
    return None if not anchor or anchor in anchors_of(text) else "there is no such heading"


def test_there_are_pages():
    assert {"README.md", "CONTRIBUTING.md"} <= {path.name for path in PAGES}
    assert sum(len(links_of(path.read_text("utf-8"))) for path in PAGES) > 20


def test_the_readme_shows_code_with_its_output_on_the_first_screen():
    lines = (REPOSITORY / "README.md").read_text("utf-8").splitlines()[:40]
    start = lines.index("```python")
    block = lines[start + 1 : lines.index("```", start)]
    assert any(line.startswith(">>> import probi") for line in block)
    assert any(line and not line.startswith((">>>", "...")) for line in block)
    assert any(line.startswith("![") for line in lines[:start])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_links_lead_somewhere(page):
    links = links_of(page.read_text("utf-8"))
    assert {link: problem_of(page, link) for link in links if problem_of(page, link)} == {}


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = DOCS / "index.md"
    assert links_of('[a](b.md) `[c](d.md)` ![e](f.png "g") <img src="h.svg">') == ["b.md", "f.png", "h.svg"]
    assert links_of("```text\n[a](b.md)\n```\n[c](d.md#e)") == ["d.md#e"]
    assert anchors_of("# One `two`: three\n## One\n## One\n(four)=\n") == {"one-two-three", "one", "one-1", "four"}
    assert problem_of(page, "files.md") is None
    assert problem_of(page, "https://example.org/nothing") is None
    assert problem_of(page, "reference/cli.md#probi-cluster") is None
    assert problem_of(page, "reference/cli.md#probi-nothing") == "there is no such heading"
    assert problem_of(page, "nothing.md") == "there is no such file"
    assert problem_of(page, "files.md#nothing") == "there is no such heading"
    assert problem_of(page, "../../nothing") == "leaves the repository"
