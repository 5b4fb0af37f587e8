"""Print constraints for pip that allow only the oldest versions which pyproject.toml allows; see `make oldest`."""

import re
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# The name, what it brings along, the oldest version; what may follow bounds it from above.
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?>=(?P<oldest>[\w.]+)(?:,<[\w.]+)?(?:;.*)?")


def constraints(project: dict[str, Any]) -> list[str]:
    """One line per dependency, of the package and of its extras, in the order of their names."""
    own = re.compile(rf"{project['name']}\[[^\]]*\]")  # extras that consist of extras
    oldest: dict[str, str] = {}
    for line in chain(project["dependencies"], *project["optional-dependencies"].values()):
        if own.fullmatch(line):
            continue
        match = REQUIREMENT.fullmatch(line)
        if match is None:
            raise SystemExit(f"{line!r} in pyproject.toml does not say which version is the oldest: name>=version.")
        if oldest.setdefault(match["name"], match["oldest"]) != match["oldest"]:
            raise SystemExit(
                f"{match['name']} has two oldest versions in pyproject.toml; the same one belongs in both."
            )
    return [f"{name}=={version}" for name, version in sorted(oldest.items())]


if __name__ == "__main__":
    print("\n".join(constraints(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"])))
