"""Print constraints for pip that allow only the oldest versions which pyproject.toml allows; see `make oldest`."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def constraints() -> list[str]:
    """One line per dependency, of the package and of its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    everything = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    found = (re.match(r"([\w-]+)(?:\[.*?\])?>=([\w.]+)", line) for line in everything)
    return sorted({f"{match[1]}=={match[2]}" for match in found if match})


if __name__ == "__main__":
    print("\n".join(constraints()))
