"""Sphinx configuration; `make docs` builds with warnings as errors."""

import re
from importlib.metadata import version as installed_version

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

project = "dprounds"
author = "The dprounds authors"
release = installed_version("dprounds")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "dprounds"
html_static_path = ["_static"]
html_css_files = ["formulas.css"]
autodoc_typehints = "description"
autodoc_type_aliases = {"ArrayLike": "ArrayLike", "Function": "Callable[[array], ArrayLike]"}  # by name, not unrolled
autodoc_member_order = "bysource"
napoleon_custom_sections = [("Guarantee", "notes_style"), ("Theorem", "notes_style")]
nitpicky = False

# Formulas are MathML, which browsers draw by themselves: no script, and nothing fetched from elsewhere.
html_math_renderer = "mathml"


def inline_formula(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula inside of a line, at whose relations the line may end."""
    writer.body.append("<wbr>".join(convert(part) for part in breakable(node.astext())))
    raise nodes.SkipNode


def displayed_formula(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own, which go on below where the column is narrow, if need be at a relation."""
    text = node.astext()
    # one that has a table of its own stays whole
    lines = [text] if r"\begin" in text else text.replace("&", "").split(r"\\")
    for line in lines:
        groups = ("<wbr>".join(convert(part, display="block") for part in breakable(one)) for one in wide(line))
        writer.body.append('<div class="math">' + " ".join(f"<span>{group}</span>" for group in groups) + "</div>")
    raise nodes.SkipNode


def wide(line: str) -> list[str]:
    """The formulas between which a line has a wide space."""
    return [line] if r"\begin" in line else re.split(r"\\qquad(?![a-zA-Z])", line)


TOKEN = re.compile(r"\\(?:[a-zA-Z]+|.)|.", re.DOTALL)
OPENING, CLOSING = {"{", r"\left", "(", "["}, {"}", r"\right", ")", "]"}
BREAKS = {"=", r"\le", r"\ge", r"\to", r"\quad", "+", "-", r"\cdot"}
BEFORE_OPERAND = {"", "_", "^", "=", "(", "[", "{", ",", r"\le", r"\ge", r"\left", r"\cdot", "+", "-"}


def breakable(line: str) -> list[str]:
    """The parts of a formula between which a line may end: at relations and sums, outside of brackets."""
    if r"\begin" in line:
        return [line]
    parts, depth, last = [""], 0, ""
    for token in TOKEN.findall(line):
        depth += (token in OPENING) - (token in CLOSING)
        if token in BREAKS and depth == 0 and last not in BEFORE_OPERAND and parts[-1].strip():
            parts.append("{}")  # what stands before the operator, so that it keeps its distance
        parts[-1] += token
        last = token if token.strip() else last
    return parts


def setup(app: Sphinx) -> None:
    """Register the renderer of formulas."""
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
