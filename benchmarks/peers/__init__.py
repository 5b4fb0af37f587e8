"""Other systems, each in an environment of its own that the benchmark makes; nothing of them is imported here."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ENVIRONMENTS = Path(".cache") / "peers"


def environment(name: str, requirements: list[str]) -> Path | None:
    """Python of an environment with these packages, made on first use; None, with a word, if that does not work."""
    folder = ENVIRONMENTS / name
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    ready = folder / ".ready"
    if ready.is_file() and ready.read_text() == "\n".join(requirements):
        return python
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True, capture_output=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        print(f"skipped: {name} could not be installed: {error.stderr.decode().strip().splitlines()[-1:]}")
        return None
    ready.write_text("\n".join(requirements))
    return python


def run(python: Path, script: str, points: np.ndarray, timeout: float | None = None, **options: Any) -> dict[str, Any]:
    """Run a script beside this file on an array; it gets the array's path and the options as JSON and prints JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.npy"
        np.save(path, points)
        command = [str(python), str(Path(__file__).parent / script), str(path), json.dumps(options)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
