"""The extra "plot": looked for on import, so that a run which ends in a report does not fail at its end."""

from importlib.util import find_spec

from probi.errors import MissingExtraError

for _name in ("matplotlib", "jinja2"):
    if find_spec(_name) is None:
        raise MissingExtraError(f"probi.report needs {_name}: pip install 'probi[plot]'")
