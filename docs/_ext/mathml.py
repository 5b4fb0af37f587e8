"""Formulas as MathML, which browsers show by themselves: no script from elsewhere, neither to build nor to read."""

import html
import re

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

# Numbered and unnumbered environments of amsmath, which are all one table or one line here.
TABLES = re.compile(r"\\(begin|end)\{(?:align|gather|alignat|split)\*?\}")
LINES = re.compile(r"\\(?:begin|end)\{equation\*?\}")
DOTS = re.compile(r"\\dots(?![a-z])")


def mathml(code: str, as_block: bool) -> str:
    """A formula of TeX as MathML, or a MathError."""
    code = DOTS.sub(r"\\ldots", LINES.sub("", TABLES.sub(r"\\\1{aligned}", code)))
    return latex2mathml.tex2mathml(code, as_block=as_block)


def _tree(node: nodes.Element, as_block: bool) -> str:
    try:
        return mathml(node.astext(), as_block)
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return f"<code>{html.escape(node.astext())}</code>"


def inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line."""
    translator.body.append(f'<span class="math">{_tree(node, False)}</span>')
    raise nodes.SkipNode


def block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula of its own."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(_tree(node, True))
    if node.get("number"):
        translator.body.append(f'<span class="eqno">({node["number"]})</span>')
    translator.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
