"""Sphinx: Markdown pages, warnings are errors (`make docs`).

The pages of the Python API take a minute and a half: all but the shortest have their contents with
the tag ``api`` only (`make api-docs`).
"""

import re
from typing import Any

project = "netfw"
author = "The netfw authors"
copyright = "The netfw authors, Apache-2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = "netfw"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
suppress_warnings = ["ref.python"]  # an attribute named `type` is a second target of `type[...]`

SHORTEST = "python-api/netfw.plan"
IS_WHOLE = tags.has("api")  # type: ignore[name-defined]  # noqa: F821


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", leave_out_tests)
    app.connect("source-read", leave_out_modules)


def leave_out_tests(_: Any, what: str, name: str, *__: Any) -> bool | None:
    """Leave out the tests of the conformance suites: they are no interface."""
    return True if name.startswith("test_") else None


def leave_out_modules(_: Any, page: str, source: list[str]) -> None:
    if page.startswith("python-api/netfw.") and page != SHORTEST and not IS_WHOLE:
        source[0] = re.sub(
            "```{eval-rst}.*?```", "See `make api-docs`.", source[0], flags=re.DOTALL
        )
