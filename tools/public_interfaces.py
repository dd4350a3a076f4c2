"""Compare netfw's public interfaces with docs/public-interfaces.txt; part of `make lint`.

Public are all typed names without an underscore of the packages in PUBLIC, but for the tests of
suites.  A difference is refused until
it is announced: `python tools/public_interfaces.py --write` writes the file, and a line that it
removes or changes needs an entry in CHANGELOG.md under "Interfaces".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import cast

import griffe

PUBLIC = ("drivers", "errors", "flows", "model", "plan", "testing.conformance", "testing.lab")
RECORDED = Path("docs/public-interfaces.txt")
PREFIXES = {
    griffe.ParameterKind.var_positional: "*",
    griffe.ParameterKind.var_keyword: "**",
    None: "",
}
LONGEST = 40
"""Lines of a difference that are shown."""


def interfaces(found: griffe.Object) -> Iterator[str]:
    """Yield a line for each public name of *found*, which is public itself."""
    for name, member in sorted(found.members.items()):
        if name.startswith(("_", "test_")) or member.is_alias:
            continue
        if isinstance(member, griffe.Function):
            yield _function(member)
        elif isinstance(member, griffe.Attribute) and member.annotation:
            yield f"{member.path}: {member.annotation}"
        elif isinstance(member, griffe.Class):
            yield f"class {member.path}({', '.join(map(str, member.bases))})"
            yield from interfaces(member)
        elif isinstance(member, griffe.Module):
            yield from interfaces(member)


def _function(found: griffe.Function) -> str:
    parameters = []
    kinds = griffe.ParameterKind
    star = False
    for each in found.parameters:
        if each.kind is kinds.keyword_only and not star:
            parameters.append("*")
        star |= each.kind in (
            griffe.ParameterKind.keyword_only,
            griffe.ParameterKind.var_positional,
        )
        prefix = PREFIXES.get(each.kind, "")
        annotation = f": {each.annotation}" if each.annotation else ""
        default = "" if each.default is None or prefix else f" = {each.default}"
        parameters.append(f"{prefix}{each.name}{annotation}{default}")
    return f"{found.path}({', '.join(parameters)}) -> {found.returns}"


def main() -> int:
    """Compare, or write; return 1 for a difference."""
    package = griffe.load("netfw", search_paths=["."], allow_inspection=False)
    assert isinstance(package, griffe.Module)
    lines = [line for name in PUBLIC for line in interfaces(cast(griffe.Module, package[name]))]
    if "--write" in sys.argv[1:]:
        RECORDED.write_text("\n".join(lines) + "\n")
        return 0
    recorded = RECORDED.read_text().splitlines()
    difference = list(unified_diff(recorded, lines, "announced", "present", lineterm="", n=0))
    if not difference:
        return 0
    print("\n".join(difference[:LONGEST]))
    if len(difference) > LONGEST:
        print(f"... and {len(difference) - LONGEST} lines more")
    print(f"public interfaces changed: run `python {sys.argv[0]} --write`, and announce in")
    print("CHANGELOG.md what is gone or different (CONTRIBUTING.md, Interfaces)")
    return 1


if __name__ == "__main__":
    sys.exit(main())
