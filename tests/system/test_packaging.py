"""The wheel has what it promises, and works where nothing of this tree is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from configparser import ConfigParser
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

import pytest
from attrs import frozen

from tests import ROOT

SOURCES = ("netfw", "netfw_drivers", "setup.cfg", "pyproject.toml", "entry_points.txt", "README.md")
BESIDE = ("LICENSE", "tests", "samples", "benchmarks")
"""What else a builder finds in the tree; of it, only the license belongs in a wheel."""

IMPORT_ALL = """
import json, sys
from importlib.metadata import entry_points
points = json.load(sys.stdin)
for group, name, value in points:
    (point,) = entry_points(group=group, name=name)
    assert point.value == value, point
    point.load()
for name, module in sys.modules.items():
    if name.partition(".")[0] in ("netfw", "netfw_drivers"):
        print(module.__file__)
"""


def run(
    *argv: str | Path, cwd: Path, stdin: str | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, **environ},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def ini(text: str) -> ConfigParser:
    parser = ConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    return parser


@frozen
class Wheel:
    """A built wheel, and what is in it."""

    path: Path
    names: frozenset[str]
    tree: Path
    """What it was built from."""

    def read(self, name: str) -> str:
        with ZipFile(self.path) as archive:
            return archive.read(name).decode()

    def metadata(self, name: str) -> str:
        (found,) = (known for known in self.names if known.endswith(f".dist-info/{name}"))
        return self.read(found)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """Build the wheel from a copy of the tree, because the build writes into it."""
    tree = tmp_path_factory.mktemp("tree")
    for name in (*SOURCES, *BESIDE):
        if (ROOT / name).is_dir():
            unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, tree / name, ignore=unwanted)
        else:
            shutil.copy(ROOT / name, tree / name)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", cwd=tree)
    (path,) = (tree / "dist").glob("netfw-*.whl")
    with ZipFile(path) as archive:
        return Wheel(path, frozenset(archive.namelist()), tree)


@pytest.mark.spec("DRV-02")
def test_both_packages_ship_their_types(wheel: Wheel) -> None:
    assert {"netfw/py.typed", "netfw_drivers/py.typed"} <= wheel.names


def test_it_holds_every_module_and_nothing_but_the_two_packages(wheel: Wheel) -> None:
    modules = {
        str(path.relative_to(wheel.tree))
        for package in ("netfw", "netfw_drivers")
        for path in (wheel.tree / package).rglob("*.py")
    }
    assert modules == {name for name in wheel.names if name.endswith(".py")}
    tops = {name.partition("/")[0] for name in wheel.names if ".dist-info/" not in name}
    assert tops == {"netfw", "netfw_drivers"}


@pytest.mark.spec("DRV-31")
def test_it_holds_every_template_of_new_packages(wheel: Wheel) -> None:
    templates = {
        str(path.relative_to(wheel.tree)) for path in (wheel.tree / "netfw").rglob("*.tmpl")
    }
    assert "netfw/cli/scaffold/templates/common/pyproject.toml.tmpl" in templates
    assert templates == {name for name in wheel.names if name.endswith(".tmpl")}


def test_its_metadata_is_that_of_setup_cfg(wheel: Wheel) -> None:
    metadata = message_from_string(wheel.metadata("METADATA"))
    stated = ini((ROOT / "setup.cfg").read_text())["metadata"]
    assert (metadata["Name"], metadata["Version"]) == (stated["name"], stated["version"])
    assert wheel.path.name == f"netfw-{stated['version']}-py3-none-any.whl"
    assert "testing" in metadata.get_all("Provides-Extra", [])
    assert wheel.metadata("licenses/LICENSE") == (ROOT / "LICENSE").read_text()


@pytest.mark.spec("DRV-10")
def test_its_entry_points_are_those_of_entry_points_txt(wheel: Wheel) -> None:
    stated = ini((ROOT / "entry_points.txt").read_text())
    shipped = ini(wheel.metadata("entry_points.txt"))
    assert {group: dict(shipped[group]) for group in shipped.sections()} == {
        group: dict(stated[group]) for group in stated.sections()
    }


@pytest.mark.spec("DRV-10", "DRV-13")
def test_installed_elsewhere_every_entry_point_loads_and_the_command_works(
    wheel: Wheel, tmp_path: Path
) -> None:
    offline = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    target = tmp_path / "target"
    pip = (sys.executable, "-m", "pip", "install", *offline, "--target", target)
    run(*pip, wheel.path, cwd=tmp_path)
    stated = ini((ROOT / "entry_points.txt").read_text())
    points = [(group, *point) for group in stated.sections() for point in stated[group].items()]
    there = {"PYTHONPATH": str(target)}
    done = run(sys.executable, "-c", IMPORT_ALL, cwd=tmp_path, stdin=json.dumps(points), **there)
    elsewhere = [line for line in done.stdout.split() if not Path(line).is_relative_to(target)]
    assert not elsewhere, "this tree, which is installed as a link, has lent a hand"
    command = ("-m", "netfw.cli.commands.main", "drivers", "--json")
    rows = json.loads(run(sys.executable, *command, cwd=tmp_path, **there).stdout)
    drivers = {row["name"]: row for row in rows}
    assert drivers["null"]["health"] == "ok"
    assert {name for group, name, _ in points if group == "netfw.interface_drivers"} <= set(drivers)


VENDOR = """
from netfw.drivers.interface import InterfaceDriver
from netfw_drivers.null.interface import NullInterfaceDriver

class Acme(InterfaceDriver):
    def devices(self) -> int:
        return 1

reveal_type(NullInterfaceDriver.devices)
"""


@pytest.mark.spec("DRV-02")
def test_types_are_found_where_netfw_is_installed_as_a_link(wheel: Wheel, tmp_path: Path) -> None:
    # With ``pip install --editable``, a type checker reads paths and runs no import hook.
    build = (
        "import sys; from setuptools.build_meta import build_editable; build_editable(sys.argv[1])"
    )
    run(sys.executable, "-c", build, tmp_path, cwd=wheel.tree)
    (link,) = tmp_path.glob("netfw-*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    offline = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "--python", python, "install", *offline, link, cwd=tmp_path)
    (tmp_path / "acme.py").write_text(VENDOR)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python)
    done = subprocess.run(
        [*mypy, "--cache-dir", tmp_path / "cache", "acme.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    own = [line for line in done.stdout.splitlines() if line.startswith("acme.py")]
    assert len(own) == 2, done.stdout
    assert 'Return type "int" of "devices" incompatible' in own[0]
    assert "Revealed type is" in own[-1]
    assert "netfw.drivers.interface.Device" in own[-1]
