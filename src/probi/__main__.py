"""The command ``probi``, and ``python -m probi``."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is imported is answered as at any other time."""
    try:
        from probi.cli.app import main as run

        run()
    except KeyboardInterrupt:
        print("probi: Stopped.", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
