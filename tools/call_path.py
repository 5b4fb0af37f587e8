"""Count the modules between a CSV row and its report: python tools/call_path.py [-v].

Runs ``probi cluster`` on a small file without compiled kernels, twice: the first time modules are loaded as well, the
second time only called. A change of folder is a module that is first called after one of another folder.
"""

import contextlib
import inspect
import io
import os
import sys
import tempfile
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

os.environ["NUMBA_DISABLE_JIT"] = "1"
SOURCE = Path(__file__).resolve().parents[1] / "src"
sys.path.insert(0, str(SOURCE))


def called(arguments: list[str]) -> list[str]:
    """Modules of the functions that a command calls, one entry per function, in the order of first calls."""
    from probi.cli.app import run

    modules: dict[CodeType, str] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # Bodies of modules and classes are not functions.
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(str(SOURCE)):
            modules.setdefault(code, str(Path(code.co_filename).relative_to(SOURCE / "probi")))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            assert run(arguments) == 0
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(modules.values())


def main() -> None:
    """Run the command, and print the counts; with -v also the functions per module."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.csv"
        path.write_text("x,y\n" + "".join(f"{i % 2 * 9 + i / 60},{i * 7 % 60 / 60}\n" for i in range(60)))
        for what in ("loaded and called", "called"):
            functions = called(["cluster", str(path), "-k", "2", "-o", f"{folder}/out", "-q"])
            modules = list(dict.fromkeys(functions))
            changes = sum(Path(a).parent != Path(b).parent for a, b in pairwise(modules))
            print(f"{what}: {len(modules)} modules, {changes} changes of folder, {len(functions)} functions")
    if "-v" in sys.argv:
        for module, count in sorted(Counter(functions).items()):
            print(f"{count:5} {module}")


if __name__ == "__main__":
    main()
