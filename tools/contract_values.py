"""The values that the methods of a contract take and give, from the source of netfw.

Fields have their docstrings below them, which only the source knows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from attrs import frozen

VALUES, MODEL, PLAN = Path("netfw/drivers"), Path("netfw/model"), Path("netfw/plan")
SHARED = ("netfw.model", "netfw.plan")
"""Packages whose values many contracts mention: they have a page of their own."""
SHARED_PAGE = "values.md"
DRAFT = "Draft: may change without notice."
_NAME = re.compile(r"[A-Za-z_]\w*")


@frozen(eq=False)
class Declared:
    """A class or an alias, where it is defined."""

    name: str
    module: str
    node: ast.ClassDef | ast.Assign
    doc: str

    @property
    def is_enum(self) -> bool:
        """Whether it says which values there are, or which of them have names."""
        return isinstance(self.node, ast.ClassDef) and (
            any(re.search("Enum|Capability", ast.unparse(each)) for each in self.node.bases)
            or any(self._is_constant(each) for each in self.node.body)
        )

    def _is_constant(self, node: ast.stmt) -> bool:
        return (
            isinstance(node, ast.AnnAssign)
            and ast.unparse(node.annotation) == f"ClassVar[{self.name}]"
        )

    @property
    def is_draft(self) -> bool:
        """Whether nothing implements it yet."""
        return isinstance(self.node, ast.ClassDef) and any(map(_is_draft_mark, self.node.body))

    @property
    def is_driver(self) -> bool:
        """Whether it is a contract itself, or a mixture of them."""
        return isinstance(self.node, ast.ClassDef) and any(
            isinstance(each, ast.FunctionDef) and "abstractmethod" in decorators_of(each)
            for each in self.node.body
        )

    def mentions(self) -> Iterator[str]:
        """Yield the names in its fields, or in the signatures of its methods."""
        if isinstance(self.node, ast.Assign):
            yield from _NAME.findall(ast.unparse(self.node.value))
            return
        for each in self.node.body:
            if isinstance(each, ast.AnnAssign):
                yield from _NAME.findall(ast.unparse(each.annotation))
            elif isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
                yield from _NAME.findall(signature_of(each))


class Source:
    """The modules of some packages: what each defines, and whence it has the rest."""

    def __init__(self, *folders: Path) -> None:
        self._defined: dict[tuple[str, str], Declared] = {}
        self._imported: dict[tuple[str, str], str] = {}
        for path in sorted(each for folder in folders for each in folder.rglob("*.py")):
            module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
            self._read(module, ast.parse(path.read_text()))

    def meant(self, name: str, module: str) -> Declared | None:
        """Return what *module* means by *name*, if it is a class or an alias of these packages."""
        found = self._defined.get((module, name))
        origin = self._imported.get((module, name))
        return found if found is not None or origin is None else self.meant(name, origin)

    def _read(self, module: str, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                self._imported |= {(module, each.name): node.module for each in node.names}
        for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
            if isinstance(node, ast.ClassDef):
                doc = ast.get_docstring(node) or ""
                self._defined[module, node.name] = Declared(node.name, module, node, doc)
            elif isinstance(node, ast.Assign) and _is_alias(node):
                name = ast.unparse(node.targets[0])
                self._defined[module, name] = Declared(name, module, node, _text(after))


def values(signatures: Iterable[tuple[str, str]], own: frozenset[str]) -> list[str]:
    """Return lines of Markdown about the values in *signatures*, without the contracts *own*.

    Each signature comes with the module in which it is written.
    """
    lines: list[str] = []
    elsewhere: list[str] = []
    for each in mentioned(Source(VALUES, MODEL, PLAN), signatures, own, within=is_local):
        if is_local(each):
            lines += value_lines(each)
        else:
            elsewhere.append(f"[`{each.name}`]({SHARED_PAGE}#{each.name.lower()})")
    if elsewhere:
        links = ", ".join(sorted(elsewhere))
        lines += ["", f"Values of the model and of plans, on [a page of their own]({SHARED_PAGE}):"]
        lines += [f"{links}."]
    return ["## Values", *lines] if lines else []


def environments(source: Source, signatures: Iterable[tuple[str, str]]) -> Iterator[Declared]:
    """Yield the classes of the kit that hooks return: environments, and what these mention."""
    waiting = [(name, module) for module, text in signatures for name in _NAME.findall(text)]
    seen: set[Declared] = set()
    while waiting:
        each = source.meant(*waiting.pop(0))
        if each is not None and each not in seen:
            seen.add(each)
            yield each
            waiting += [(name, each.module) for name in each.mentions()]


def is_local(each: Declared) -> bool:
    """Return whether it is on the page of the contract that mentions it."""
    return each.is_enum or not each.module.startswith(SHARED)


def shared_values(signatures: Iterable[tuple[str, str]], own: frozenset[str]) -> list[str]:
    """Return lines of Markdown about the values of the model and of plans in *signatures*."""
    source = Source(VALUES, MODEL, PLAN)
    found = list(mentioned(source, signatures, own, within=lambda each: True))
    lines: list[str] = []
    for package in SHARED:
        lines += ["", f"## Values of `{package}`"]
        chosen = (each for each in found if each.module.startswith(package) and not each.is_enum)
        for each in sorted(chosen, key=lambda each: each.name):
            lines += value_lines(each, source)
    return lines


def mentioned(
    source: Source,
    signatures: Iterable[tuple[str, str]],
    own: frozenset[str],
    within: Callable[[Declared], bool],
) -> Iterator[Declared]:
    """Yield what *signatures* mention, and what those values mention of which *within* is true."""
    waiting = [(name, module) for module, text in signatures for name in _NAME.findall(text)]
    seen: set[Declared] = set()
    while waiting:
        each = source.meant(*waiting.pop(0))
        if each is None or each in seen or each.name in own or each.is_driver:
            continue
        seen.add(each)
        yield each
        if within(each):
            waiting += [(name, each.module) for name in each.mentions()]


def _is_draft_mark(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "DRAFT"


def _is_alias(node: ast.Assign) -> bool:
    name = ast.unparse(node.targets[0])
    return bool(re.fullmatch(r"[A-Z][a-z]\w*", name)) and not isinstance(node.value, ast.Call)


def value_lines(each: Declared, source: Source | None = None) -> list[str]:
    """Return lines about one value, with the fields that it inherits if *source* is given."""
    draft = f"*{DRAFT}* " if each.is_draft else ""
    lines = ["", f"### {each.name}", "", f"Of `{each.module}`. {draft}{each.doc}".rstrip()]
    if isinstance(each.node, ast.Assign):
        return [*lines, "", "```python", ast.unparse(each.node), "```"]
    rows = list(_members(each.node))
    if source is not None:
        rows += _inherited(each, source)
    return [*lines, "", *rows] if rows else lines


def _inherited(each: Declared, source: Source) -> Iterator[str]:
    assert isinstance(each.node, ast.ClassDef)
    for written in each.node.bases:
        base = source.meant(ast.unparse(written), each.module)
        if base is not None and isinstance(base.node, ast.ClassDef):
            for row in _members(base.node):
                yield f"{row} (of every `{base.name}`)"
            yield from _inherited(base, source)


def _members(node: ast.ClassDef) -> Iterator[str]:
    hidden: set[str] = set()
    for each, after in zip(node.body, [*node.body[1:], None], strict=True):
        doc = " ".join(_text(after).split())
        tail = f": {doc}" if doc else ""
        if _is_draft_mark(each):
            continue
        if isinstance(each, ast.AnnAssign):
            hidden.add(ast.unparse(each.target).lstrip("_"))  # as the constructor calls it
            yield f"* `{_field(each)}`{tail}"
        elif isinstance(each, ast.Assign) and not ast.unparse(each).startswith("__"):
            yield f"* `{ast.unparse(each)}`{tail}"
        elif isinstance(each, ast.FunctionDef) and not (
            each.name.startswith("_") or each.name in hidden
        ):
            text = " ".join((ast.get_docstring(each) or "").split())
            text = re.sub(r":raises (\w+):", r"Raises `\1`:", text)
            yield f"* `{signature_of(each)}`{f': {text}' if text else ''}"


def _field(node: ast.AnnAssign) -> str:
    text = f"{ast.unparse(node.target).lstrip('_')}: {ast.unparse(node.annotation)}"
    if node.value is None:
        return text
    default = ast.unparse(node.value)
    if default.startswith("field("):
        return f"{text} (has a default)" if re.search("default=|factory=", default) else text
    return f"{text} = {default}"


def signature_of(node: ast.FunctionDef) -> str:
    if "property" in decorators_of(node):
        return f"{node.name}: {ast.unparse(node.returns) if node.returns else 'Any'}"
    gives = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){gives}".replace("(self, ", "(").replace(
        "(self)", "()"
    )


def decorators_of(node: ast.FunctionDef) -> str:
    return " ".join(ast.unparse(each) for each in node.decorator_list)


def _text(node: ast.stmt | None) -> str:
    """Return the text of a statement that is only text: the docstring of what is above it."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return node.value.value if isinstance(node.value.value, str) else ""
    return ""
