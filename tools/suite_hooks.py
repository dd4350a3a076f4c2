"""The hooks of the conformance suites, with their signatures, from the source of netfw.

A hook is what a suite lists in ``HOOKS``, or a method or fixture whose body only raises or gives a
constant: the vendor's class overrides it.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import contract_values
from attrs import frozen

from netfw.drivers.base import Driver
from netfw.testing import conformance

KIT = "netfw.testing.conformance"


@frozen
class Hook:
    """A method that a vendor's class overrides."""

    name: str
    signature: str
    doc: str
    module: str
    required: bool
    fixture: bool


def hook_lines(contract: type[Driver], types: Mapping[str, str]) -> list[str]:
    """Return lines of Markdown about the suite of *contract*: its hooks, and the values they
    return.

    *types* has the types that stand for type variables.
    """
    name = f"{contract.__name__}Conformance"
    if name not in conformance.__all__:
        return []
    found = list(hooks(getattr(conformance, name)))
    lines = ["", "## Hooks of the suite", "", f"`netfw.testing.conformance.{name}`: override"]
    lines += ["the required hooks in a subclass, and others where the default does not fit.", ""]
    for hook in sorted(found, key=lambda hook: not hook.required):
        kinds = ["required"] * hook.required + ["fixture"] * hook.fixture
        mark = f" *({', '.join(kinds)})*" if kinds else ""
        lines.append(f"* `{_filled(hook.signature, types)}`{mark}: {hook.doc}")
    signatures = [(hook.module, hook.signature) for hook in found]
    source = contract_values.Source(Path(*KIT.split(".")))
    for each in contract_values.environments(source, signatures):
        lines += contract_values.value_lines(each, source)
    return lines


def _filled(signature: str, types: Mapping[str, str]) -> str:
    for name, actual in types.items():
        signature = re.sub(rf"\b{name}\b", actual, signature)
    return signature


def hooks(suite: type) -> Iterator[Hook]:
    """Yield the hooks of *suite*, those of the most general class first."""
    listed = {name for each in suite.__mro__ for name in vars(each).get("HOOKS", ())}
    functions: dict[str, list[tuple[str, ast.FunctionDef]]] = {}
    for kind in reversed(suite.__mro__):
        if kind.__module__.startswith(KIT):
            for function in _functions(kind):
                functions.setdefault(function.name, []).append((kind.__module__, function))
    for name, given in functions.items():
        first = given[0][1]
        if name.startswith(("_", "test")) or not (name in listed or _is_replaceable(first)):
            continue
        module, last = given[-1]
        docs = [doc for _, each in given if (doc := ast.get_docstring(each))]
        yield Hook(
            name=name,
            signature=contract_values.signature_of(last),
            doc=" ".join((docs[-1] if docs else "").split()),
            module=module,
            required=name in listed and len(given) == 1,
            fixture="fixture" in contract_values.decorators_of(last),
        )


def _functions(kind: type) -> Iterator[ast.FunctionDef]:
    tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            yield from (each for each in node.body if isinstance(each, ast.FunctionDef))


def _is_replaceable(function: ast.FunctionDef) -> bool:
    """Return whether the body, without its docstring, raises or returns a constant."""
    body = [each for each in function.body if not isinstance(each, ast.Expr)]
    match body:
        case [ast.Raise()]:
            return True
        case [ast.Return(value=None | ast.Constant() | ast.Dict(keys=[]) | ast.Tuple(elts=[]))]:
            return True
    return False
