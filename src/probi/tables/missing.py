"""The options for rows that lack a value."""

from probi.errors import InputError

MISSING = ("error", "skip-row", "skip-node", "absent")


def check_missing(missing: str, probabilities: str) -> None:
    """Raise on an unknown option, and on two that contradict each other."""
    if missing not in MISSING:
        raise InputError(f"missing is {missing!r}, but must be one of {', '.join(MISSING)}.")
    if missing == "absent" and probabilities == "normalize":
        raise InputError(
            "missing 'absent' and probabilities 'normalize' do not go together: the first takes probability away, the "
            "second puts it back. Use missing 'skip-row'."
        )
