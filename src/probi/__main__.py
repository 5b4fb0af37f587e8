"""``python -m probi`` is the command ``probi``."""

from probi.cli.app import main

if __name__ == "__main__":
    main()
