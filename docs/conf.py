"""Sphinx configuration; `make docs` builds with warnings as errors."""

from importlib.metadata import version as installed_version

project = "dprounds"
author = "The dprounds authors"
release = installed_version("dprounds")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "dprounds"
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_custom_sections = [("Guarantee", "notes_style"), ("Theorem", "notes_style")]
nitpicky = False
