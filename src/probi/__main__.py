"""The command ``probi``, and ``python -m probi``."""

import atexit
import gc
import os
import sys
from contextlib import suppress

# With Python's default of 700 new objects between two collections, looking for garbage in freshly loaded modules takes
# a tenth of the time of a short command.
COLLECT_AFTER = 200_000


def main() -> None:
    """Run the command line and end the process; Ctrl-C during imports is handled as at any other time."""
    gc.set_threshold(COLLECT_AFTER)
    try:
        from probi.cli.app import main as run

        code = run()
    except KeyboardInterrupt:
        print("probi: Stopped.", file=sys.stderr)
        code = 1
    # Files are closed by now; freeing every object as well would take a tenth of a second.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
