"""What can go wrong, as classes: every error of probi is a ProbiError, and a ValueError where that is the custom."""


class ProbiError(Exception):
    """Base of all errors that probi raises on purpose."""


class InputError(ProbiError, ValueError):
    """Data or a parameter that cannot be used; the message says what, where, and what to do."""


class SolverWarning(UserWarning):
    """An answer is valid, but not what was asked for: fewer distinct centers, a tolerance that was not reached."""


class MissingExtraError(ProbiError, ImportError):
    """A package that is needed here and not elsewhere is not installed; the message says how to install it."""
