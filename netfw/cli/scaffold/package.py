"""A new package: rendered from templates as a whole, then written as a whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from string import Template
from typing import Final

from netfw.cli.scaffold.kinds import ScaffoldKind
from netfw.cli.scaffold.names import PackageNames
from netfw.errors import ConfigError

SUFFIX: Final = ".tmpl"
PACKAGE: Final = "PACKAGE"
"""Folder in a path of a template that gets the name of the package."""
DOT: Final = "dot_"
"""Prefix of templates whose files begin with a dot."""

LONGEST_OWNER: Final = 15
"""Length of the name of an extension in the dataplane, as of a device."""
CI_PACKAGES: Final = (
    "      - run: sudo apt-get update\n"
    "      - run: sudo apt-get install -y openvswitch-switch iptables ipset dnsmasq haproxy\n"
)
"""Step of the CI file that installs what a lab needs."""

Files = Mapping[PurePosixPath, str]


def render_package(kind: ScaffoldKind, names: PackageNames) -> Files:
    """Return the files of a package, by path."""
    values = template_values(kind, names)
    rendered: dict[PurePosixPath, str] = {}
    for folder in kind.folders:
        for path, template in _templates(folder):
            rendered[_target(path, names)] = Template(template).substitute(values)
    return rendered


def template_values(kind: ScaffoldKind, names: PackageNames) -> dict[str, str]:
    """Return the values of all placeholders of the templates."""
    contract, needs = kind.contract, kind.needs
    extras = f"[{','.join(needs.extras)}]" if needs.extras else ""
    return {
        "distribution": names.distribution,
        "package": names.package,
        "prefix": names.prefix,
        "owner": names.package[:LONGEST_OWNER].rstrip("_"),
        "kind": kind.name,
        "contract": contract.__name__,
        "contract_module": contract.__module__,
        "group": contract.GROUP,
        "version": str(contract.VERSION),
        "driver_class": f"{names.prefix}{contract.__name__}",
        "netfw_extras": extras,
        "pytest_options": "-ra --sandbox" if needs.is_sandboxed else "-ra",
        "sandbox_option": " --sandbox" if needs.is_sandboxed else "",
        "ci_packages": CI_PACKAGES if needs.is_sandboxed else "",
    }


def write_package(rendered: Files, target: Path) -> None:
    """Write *rendered* as the directory *target*: all of it, or nothing.

    :raises ConfigError: *target* exists, or its parent cannot be written.
    """
    if os.path.lexists(target):
        raise ConfigError(
            f"{target} exists: nothing is overwritten; choose another name, or --directory"
        )
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as exc:
        raise ConfigError(f"{target.parent} cannot be written: {exc.strerror}") from exc
    try:
        for path, text in rendered.items():
            file = temporary / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        temporary.chmod((temporary / "src").stat().st_mode)
        temporary.rename(target)
    except OSError as exc:
        raise ConfigError(f"{target} cannot be written: {exc.strerror}") from exc
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _templates(folder: str) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield the templates of *folder*, each with its path in there."""
    waiting = [(PurePosixPath(), files(__package__) / "templates" / folder)]
    while waiting:
        path, directory = waiting.pop()
        for entry in sorted(directory.iterdir(), key=_name):
            if entry.is_dir():
                waiting.append((path / entry.name, entry))
            elif entry.name.endswith(SUFFIX):
                yield path / entry.name, entry.read_text(encoding="utf-8")


def _name(entry: Traversable) -> str:
    return entry.name


def _target(path: PurePosixPath, names: PackageNames) -> PurePosixPath:
    """Return where the file of a template goes in the package."""
    parts = [names.package if part == PACKAGE else part for part in path.parts]
    parts = [f".{p.removeprefix(DOT)}" if p.startswith(DOT) else p for p in parts]
    return PurePosixPath(*parts).with_name(parts[-1].removesuffix(SUFFIX))
