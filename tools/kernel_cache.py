"""Name the folder for Numba's compiled code after the contents of the kernels; as a script, print it.

Numba's disk cache looks at the file of the function it compiles and not at the files of the functions that one calls:
after a change in a shared helper it runs the old code. A folder of its own for every state of the kernels cures that.
The Makefile and conftest.py both ask here. Standard library only: it runs before anything is installed.
"""

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "src" / "probi" / "_kernels"


def cache_folder() -> Path:
    """Folder below .cache/numba; it need not exist, and neither need the kernels."""
    digest = hashlib.sha256()
    for path in sorted(KERNELS.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(KERNELS).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    # 16 digits: Windows still has trouble with paths above 260 characters, and Numba appends long names.
    return ROOT / ".cache" / "numba" / digest.hexdigest()[:16]


if __name__ == "__main__":
    print(cache_folder())
