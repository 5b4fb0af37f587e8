"""Memory of this process."""

import sys
from pathlib import Path


def peak_megabytes() -> float:
    """Peak memory of this process; 0 if the system does not report it."""
    status = Path("/proc/self/status")
    if status.is_file():
        # Linux: getrusage would also count the process that started this one.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6
