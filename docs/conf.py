"""Sphinx configuration; `make docs` builds with warnings as errors."""

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
autodoc_member_order = "bysource"
napoleon_custom_sections = [("Guarantee", "notes_style"), ("Theorem", "notes_style")]
nitpicky = False

# Formulas are MathML, which browsers draw by themselves: no script, and nothing fetched from elsewhere.
html_math_renderer = "mathml"


def inline_formula(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula inside of a line."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def displayed_formula(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own, aligned where it says how."""
    text = node.astext()
    if "\\\\" in text and "\\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    writer.body.append(f'<div class="math">{convert(text, display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register the renderer of formulas."""
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
