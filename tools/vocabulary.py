"""Check names and prose against the rules of CONTRIBUTING.md; part of `make lint`.

1. No module, class, function or test has a refused word in its name, except those listed in
   tools/vocabulary_allowed.txt. A listed name that is gone must leave the list.
2. "cannot" is one word in docstrings, comments and pages.
3. A function docstring does not begin with a noun clause, except in the files listed with a count
   in tools/vocabulary_allowed.txt.
4. A commit subject has at most 72 characters.
5. No two modules of netfw and netfw_drivers define a public class of the same name, but for those
   that each driver has, and an error of the API.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

# fmt: off
REFUSED = frozenset((
    "abandonment", "agenda", "applicant", "attendance", "backbone", "book", "caution", "chapter",
    "chore", "complaint", "court", "crew", "deed", "desk", "detour", "dialing", "door", "ear",
    "errand", "farewell", "fate", "flooring", "gossip", "imaginary", "judge", "keeper", "keeping",
    "leftovers", "leg", "mend", "narration", "nobody", "nudge", "patience", "picture", "postman",
    "pulse", "recipe", "shelf", "signpost", "somebody", "stir", "stirring", "suspicion", "taught",
    "tenure", "told", "untold", "verdict", "whoever", "wish", "workshop",
))
CLAUSES = frozenset((
    "all", "everybody", "everything", "he", "how", "it", "its", "nobody", "nothing", "of", "one",
    "somebody", "something", "that", "these", "those", "what", "where", "whether", "which", "who",
    "whoever", "whom", "whose", "why",
))
# fmt: on
SHARED_CLASSES = frozenset(("Observed", "PortInUse", "Settings"))
SHIPPED = ("netfw", "netfw_drivers")
ALLOWED = Path("tools/vocabulary_allowed.txt")
CHECKED_COMMITS = "22559cb..HEAD"
"""Commits since the rule; the range is skipped in a clone that does not reach back so far."""
SUBJECT_LENGTH = 72


def words(name: str) -> set[str]:
    """Split a snake_case or CamelCase name into lower-case words, without a plural's s."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return {form for part in parts for form in (part.lower(), part.lower().removesuffix("s"))}


def named(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield the module, and each class and function in it, that has a refused word in its name."""
    if words(path.stem) & REFUSED:
        yield str(path)
    for node in ast.walk(tree):
        is_named = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_named and words(node.name) & REFUSED:
            yield f"{path}:{node.name}"


def clauses(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of functions whose docstring begins with a noun clause."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_property(node):
            first = (ast.get_docstring(node) or "").split(maxsplit=1)[:1]
            if first and first[0].strip(",.:;*`").lower() in CLAUSES:
                yield node.lineno


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def tracked(*patterns: str) -> list[Path]:
    """Return the files of the checkout that match *patterns*."""
    done = subprocess.run(
        ["git", "ls-files", "-z", *patterns], capture_output=True, text=True, check=False
    )
    names = done.stdout.split("\0") if done.returncode == 0 else []
    return [Path(name) for name in names if name and Path(name).is_file()]


def name_problems(found: Counter[str], allowed: Counter[str]) -> Iterator[str]:
    """Yield one line for each name that is not allowed, and for each allowed one that is gone."""
    for name, count in sorted((found - allowed).items()):
        path, _, symbol = name.partition(":")
        if symbol == "noun clauses":
            yield f"{path}: {count} more docstrings begin with a noun clause: use an imperative"
        else:
            yield f"{name}: a word of the glossary's left column: see CONTRIBUTING.md"
    for name in sorted((allowed - found).keys()):
        yield f"{ALLOWED}: {name} is allowed more often than it occurs: run with --write"


def public_classes(tree: ast.Module) -> Iterator[str]:
    """Yield the public classes of a module."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def shared_name_problems(classes: Mapping[str, Sequence[Path]]) -> Iterator[str]:
    """Yield one line for each class name that several modules define."""
    for name, paths in sorted(classes.items()):
        if len(paths) > 1 and name not in SHARED_CLASSES:
            where = ", ".join(map(str, sorted(paths)))
            yield f"class {name}: defined in {where}: put a noun in front of one"


def spelling_problems(path: Path, text: str) -> Iterator[str]:
    """Yield one line for each "can not" in *text*."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"\bcan not\b", line, re.IGNORECASE):
            yield f"{path}:{number}: write cannot"


def subject_problems() -> Iterator[str]:
    """Yield one line for each commit subject that is too long."""
    done = subprocess.run(
        ["git", "log", "--no-merges", "--format=%h %s", CHECKED_COMMITS],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines() if done.returncode == 0 else ():
        commit, _, subject = line.partition(" ")
        if len(subject) > SUBJECT_LENGTH:
            yield f"commit {commit}: subject of {len(subject)} characters, over {SUBJECT_LENGTH}"


def main(arguments: list[str]) -> int:
    """Print every problem; return 1 if there is one. With --write, write the list anew."""
    found: Counter[str] = Counter()
    problems = list(subject_problems())
    classes: defaultdict[str, list[Path]] = defaultdict(list)
    for path in tracked("*.py"):
        text = path.read_text()
        tree = ast.parse(text)
        found.update(named(path, tree))
        if path.parts[0] in SHIPPED:
            found += Counter({f"{path}:noun clauses": len(list(clauses(tree)))})
            for name in public_classes(tree):
                classes[name].append(path)
        if path != Path("tools/vocabulary.py"):
            problems += spelling_problems(path, text)
    problems += shared_name_problems(classes)
    for path in tracked("*.md"):
        if not path.is_relative_to("docs/spec"):
            problems += spelling_problems(path, path.read_text())
    if "--write" in arguments:
        ALLOWED.write_text("".join(f"{count} {name}\n" for name, count in sorted(found.items())))
        return 0
    lines = ALLOWED.read_text().splitlines() if ALLOWED.exists() else []
    allowed = Counter({name: int(count) for count, name in (line.split(" ", 1) for line in lines)})
    problems += name_problems(found, allowed)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
