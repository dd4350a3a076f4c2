"""Sphinx: Markdown pages, warnings are errors (`make docs`)."""

project = "netfw"
author = "The netfw authors"
copyright = "The netfw authors, Apache-2.0"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "netfw"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
