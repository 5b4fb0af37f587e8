"""Settings of the site; `make docs` builds it. Nothing here needs the network."""

import os
import sys
from pathlib import Path

from docutils import nodes

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "tools")]

import cli_reference  # noqa: E402

import probi  # noqa: E402

project = "probi"
author = "The probi developers"
copyright = "The probi developers, BSD-3-Clause"
release = version = probi.__version__
language = "en"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "reference/_*", "**/*.ipynb", "gallery/*.py"]
templates_path = ["_templates"]
nitpicky = True
smartquotes = False  # --option is not a dash

# -- text ---------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"
# Prompts and outputs are part of the blocks, because these run as tests; who copies one wants neither.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
pygments_style = "default"

# -- reference ----------------------------------------------------------------------------------------------------

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc has the types
autodoc_inherit_docstrings = False
add_module_names = False
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the template does it
numpydoc_xref_param_type = False

# -- gallery ------------------------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "doc_module": ("probi",),
    "backreferences_dir": None,
    "min_reported_time": 1_000_000,
    "write_computation_times": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "image_srcset": ["2x"],
    "within_subsection_order": "gallery_order.ReportContext",
    "show_signature": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_", "__repr__"),
    "matplotlib_animations": False,
    "parallel": 2,  # scripts take more than half of the time of the site
}

# -- look ---------------------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "probi"
html_static_path = ["_static"]
html_extra_path = ["llms.txt", "reference/probi.1", "images/card.png"]
# Where the site stands: cards in social networks need whole addresses.
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
html_context = {"site_url": html_baseurl}
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_sidebars = {"**": ["site-nav"]}
html_theme_options = {
    # The host of the site keeps one site per version, and offers them in a menu of its own: what is read is said here.
    "logo": {"text": f"probi {release}"},
    "navbar_center": [],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "navigation_depth": 3,
    "show_nav_level": 1,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def _left_out(app, what, name, obj, skip, options):
    """Leave out methods that classes have from scikit-learn, Spark and Python: they are explained there."""
    home = getattr(getattr(obj, "fget", obj), "__module__", None) or ""
    return None if home.startswith("probi") else True


def _with_results(app, docname, source):
    """Put the pages of results into the navigation; as files they know nothing of a site."""
    if docname == "results/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


def _without_last_line(app, doctree):
    """Drop the empty line at the end of a block of code, which doctest wants and readers do not."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip("\n")
        block.rawsource, block.children = text, []
        block += nodes.Text(text)


def _wide_gallery(app, doctree):
    """Leave out the list of headings beside scripts: they have two, and need the room for their lines."""
    if app.env.docname.startswith("gallery/"):
        app.env.metadata[app.env.docname]["html_theme.sidebar_secondary.remove"] = "true"


def setup(app):
    """Write the page of the command line from the commands themselves."""
    cli_reference.write(HERE / "reference" / "cli.md")
    app.connect("source-read", _with_results)
    app.connect("doctree-read", _without_last_line)
    app.connect("doctree-read", _wide_gallery)
    app.connect("autodoc-skip-member", _left_out)
