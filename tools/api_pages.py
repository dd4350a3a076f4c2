"""Pages of the Python API reference: one per public package, for Sphinx's autodoc."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path

from public_interfaces import PUBLIC

PAGES = Path("docs/python-api")
OPTIONS = ("members", "undoc-members", "ignore-module-all", "show-inheritance")
"""Without what a package imports to export it again: each name is described where it is defined."""
_INDEX = """\
# Python API

The interfaces that vendors and embedders may depend on, from the docstrings of the code. The
promises of drivers are on the pages of [contracts](../contracts/index.md). `make lint` compares
every name and signature with `docs/public-interfaces.txt`; `make api-docs` builds these pages with
their contents. `tools/generate_docs.py` writes this page.

| package | contents |
| --- | --- |
{rows}

```{{toctree}}
:hidden:

{names}
```
"""


def api_pages() -> dict[Path, str]:
    """Return the text of each page."""
    packages = [f"netfw.{name}" for name in PUBLIC]
    rows = [f"| [{name}]({name}.md) | {_summary(name)} |" for name in packages]
    pages = {PAGES / f"{name}.md": _page(name) for name in packages}
    index = _INDEX.format(rows="\n".join(rows), names="\n".join(packages))
    return {**pages, PAGES / "index.md": index}


def _summary(module: str) -> str:
    lines = (import_module(module).__doc__ or "").strip().splitlines()
    return lines[0].rstrip(".") if lines else ""


def _page(package: str) -> str:
    lines = [f"# {package}", ""]
    for module in modules(package):
        body = [f".. automodule:: {module}", *(f"   :{each}:" for each in OPTIONS)]
        heading = [] if module == package else [f"## {module}", ""]
        lines += [*heading, "```{eval-rst}", *body, "```", ""]
    return "\n".join(lines)


def modules(package: str) -> list[str]:
    """Return the public modules of a package, itself first."""
    found = pkgutil.walk_packages(import_module(package).__path__, f"{package}.")
    names = (each.name for each in found)
    return [package, *(name for name in names if not _is_private(name))]


def _is_private(module: str) -> bool:
    return any(part.startswith("_") for part in module.split("."))
