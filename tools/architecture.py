"""Draw the layers of import-linter's contracts: python tools/architecture.py writes docs/images/architecture.svg.

The drawing is made of pyproject.toml alone, so it cannot say anything else than what `make lint` checks; a test sees
that it is up to date.
"""

import tomllib
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "architecture.svg"

# Of middle brightness, with nothing behind them: one drawing serves light and dark pages.
BOX, PRIVATE, LINE = "#3b82c4", "#6b7f94", "#7d8590"
WIDTH, HEIGHT, GAP = 480, 42, 16  # of the drawing, of a layer, between layers


def contracts() -> list[dict[str, Any]]:
    """Contracts as they stand in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    contracts: list[dict[str, Any]] = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return contracts


def layers() -> list[list[str]]:
    """Modules of each layer, the highest one first."""
    whole = next(contract["layers"] for contract in contracts() if contract["type"] == "layers")
    return [[name.strip(" ()").removeprefix("probi.") for name in layer.split("|")] for layer in whole]


def packages() -> dict[str, list[str]]:
    """Packages of others that only this module may import."""
    allowed: dict[str, list[str]] = {}
    for contract in contracts():
        if contract["type"] != "forbidden":
            continue
        for entry in contract["ignore_imports"]:
            module, package = (part.strip() for part in entry.split("->"))
            names = allowed.setdefault(module.removesuffix(".**").removeprefix("probi."), [])
            if package not in names:
                names.append(package)
    return allowed


def drawing() -> str:
    """The drawing as SVG."""
    others = packages()
    rows = layers()
    height = len(rows) * (HEIGHT + GAP) - GAP + 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" font-family="system-ui, sans-serif" text-anchor="middle">',
        "<title>Layers of probi: a module imports only what is below it</title>",
    ]
    for i, modules in enumerate(rows):
        top = 1 + i * (HEIGHT + GAP)
        if i:
            x = WIDTH / 2
            parts.append(f'<path d="M{x:g} {top - GAP + 2}V{top - 6}" stroke="{LINE}" stroke-width="1.5"/>')
            parts.append(f'<path d="M{x - 4:g} {top - 7}h8l-4 6z" fill="{LINE}"/>')
        width = (WIDTH - 2 - 6 * (len(modules) - 1)) / len(modules)
        for j, name in enumerate(modules):
            left = 1 + j * (width + 6)
            parts += _box(name, others.get(name, []), left, top, width)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _box(name: str, others: list[str], left: float, top: float, width: float) -> list[str]:
    middle = left + width / 2
    colour = PRIVATE if name.startswith("_") else BOX
    size = min(14.0, round((width - 12) / (0.6 * len(name)), 1))  # a letter is about 0.6 of it wide
    line = top + (18 if others else 26)
    lines = [
        f'<rect x="{left:g}" y="{top}" width="{width:g}" height="{HEIGHT}" rx="6" fill="{colour}"/>',
        f'<text x="{middle:g}" y="{line}" font-size="{size:g}" fill="#fff">{escape(name)}</text>',
    ]
    if others:
        text = escape(", ".join(others))
        lines.append(f'<text x="{middle:g}" y="{top + 34}" font-size="11" fill="#fff">{text}</text>')
    return lines


if __name__ == "__main__":
    PICTURE.write_text(drawing(), "utf-8")
