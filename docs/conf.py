"""Sphinx configuration: ``sphinx-build -W docs docs/build`` with the dependency group ``docs``."""

import sys
from pathlib import Path

import simgpu

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "SimGPU"
author = "the SimGPU maintainers"
copyright = "the SimGPU maintainers"
version = release = simgpu.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "front",
    "gallery",
]
exclude_patterns = ["build"]
smartquotes = False  # options are written with two hyphens

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"SimGPU {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
