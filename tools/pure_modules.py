"""Check that modules which call themselves pure are; part of `make imports`.

A module whose docstring says "Pure." imports nothing that touches the machine, neither itself nor
by what it imports.  Folders that decide are listed in .importlinter; this is for single modules
beside code that acts.  Docstrings of packages are not read: a folder is listed there.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import grimp

ROOTS = ("netfw", "netfw_drivers")
_PURE = re.compile(r"\bPure\b")


def pure_modules(root: Path) -> Iterator[str]:
    """Yield the modules below *root* that call themselves pure."""
    for file in sorted(root.rglob("*.py")):
        docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
        if file.name != "__init__.py" and _PURE.search(docstring):
            yield ".".join(file.relative_to(root.parent).with_suffix("").parts)


def forbidden_modules() -> list[str]:
    """Return what code that decides must not import, as .importlinter has it."""
    parser = ConfigParser()
    parser.read(".importlinter")
    return parser["importlinter:contract:pure"]["forbidden_modules"].split()


def chains(graph: grimp.ImportGraph, module: str) -> Iterator[str]:
    """Yield how *module* reaches what touches the machine."""
    for imported in forbidden_modules():
        chain = graph.find_shortest_chain(module, imported) if imported in graph.modules else None
        if chain is not None:
            yield " -> ".join(chain)


def main() -> int:
    graph = grimp.build_graph(*ROOTS, include_external_packages=True, cache_dir=None)
    modules = [module for root in ROOTS for module in pure_modules(Path(root))]
    found = [chain for module in modules for chain in chains(graph, module)]
    for chain in found:
        print(f"it says that it is pure: {chain}")
    print(f"{len(modules)} modules say that they are pure, and {len(found)} imports contradict")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
