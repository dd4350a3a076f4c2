"""The rules of docs/architecture.md hold, and what breaks one is refused."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from attrs import frozen

from tests import ROOT

OF_DRIVERS = ("tests/unit/backends", "tests/unit/cli/agents")
"""Folders of unit tests that import reference drivers."""
QUICK = "drivers or plan or flows or state or errors or witness"

WITNESS = """
import importlib.util
from pathlib import Path
import netfw

def test_witness_that_this_is_the_copy_and_that_it_has_no_drivers():
    assert Path(netfw.__file__).is_relative_to(Path(__file__).parents[2])
    assert importlib.util.find_spec("netfw_drivers") is None
"""


def run(*argv: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(argv, cwd=cwd, env=environ, capture_output=True, text=True, check=False)


def copy(target: Path, *names: str) -> Path:
    for name in names:
        source = ROOT / name
        if source.is_dir():
            unwanted = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, target / name, ignore=unwanted)
        else:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name)
    return target


@pytest.mark.nightly
def test_the_framework_stands_without_any_driver(tmp_path: Path) -> None:
    # Every module of its unit tests is imported, and those that are quick are run.
    tree = copy(
        tmp_path / "tree",
        "netfw",
        "tests/__init__.py",
        "tests/conftest.py",
        "tests/descriptor_limit.py",
        "tests/thread_limit.py",
        "samples/topologies",
        "tools",
        "tests/unit",
        "docs",
        "conftest.py",
        "pyproject.toml",
        "entry_points.txt",
    )
    for folder in OF_DRIVERS:
        shutil.rmtree(tree / folder)
    (tree / "tests/unit/test_witness.py").write_text(WITNESS)
    done = run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # An environment that has what netfw needs and not this tree, which is installed as a link.
    (site,) = (tmp_path / "env/lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n{tree}\n")
    done = run(
        *(tmp_path / "env/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("tests/unit", "-k", QUICK),
        cwd=tree,
    )
    assert done.returncode == 0, f"{done.stdout}\nunit tests of drivers go to tests/unit/backends"
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 300


@frozen
class Violation:
    """A line that must not be in a file, and the contract that says so."""

    contract: str
    file: str
    line: str = ""


VIOLATIONS = {
    "a decision that starts a process": Violation(
        "What decides does not touch the machine", "netfw/flows/flow.py", "import subprocess"
    ),
    "a model that knows a contract": Violation(
        "Each layer knows only the layers below it",
        "netfw/model/port.py",
        "import netfw.drivers.interface",
    ),
    "a folder without a place": Violation(
        "Each layer knows only the layers below it", "netfw/misc/__init__.py"
    ),
    "a framework that knows a driver": Violation(
        "The framework never imports a driver",
        "netfw/cli/commands/drivers.py",
        "import netfw_drivers.null.interface",
    ),
    "a driver that knows another": Violation(
        "Drivers do not know each other",
        "netfw_drivers/ovs/interface/driver.py",
        "import netfw_drivers.null.interface",
    ),
    "a firewall that knows the switch driver": Violation(
        "Drivers for Open vSwitch know each other's contracts only",
        "netfw_drivers/ovs/firewall/driver.py",
        "import netfw_drivers.ovs.switch.options",
    ),
    "a pipeline that knows the switch driver": Violation(
        "The pipeline does not know the drivers that use it",
        "netfw_drivers/ovs/pipeline/br_int.py",
        "import netfw_drivers.ovs.switch.plan.state",
    ),
    "a driver that speaks netlink": Violation(
        "Only the linux toolbox, and the lab, speak to the kernel",
        "netfw_drivers/null/interface.py",
        "import pyroute2",
    ),
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the message on each broken contract, by its name, for a tree with all violations."""
    tree = copy(tmp_path_factory.mktemp("tree"), "netfw", "netfw_drivers", ".importlinter")
    for violation in VIOLATIONS.values():
        target = tree / violation.file
        target.parent.mkdir(exist_ok=True)
        former = target.read_text() if target.exists() else '"""A folder nobody placed."""\n'
        target.write_text(f"{former}\n{violation.line}\n")
    done = run(Path(sys.executable).with_name("lint-imports"), "--no-cache", cwd=tree)
    assert done.returncode == 1, done.stdout + done.stderr
    _, *parts = re.split(r"^(.+)\n-+$", done.stdout, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("violation", VIOLATIONS.values(), ids=VIOLATIONS.keys())
def test_a_breach_of_the_layers_is_refused_by_name(
    broken: dict[str, str], violation: Violation
) -> None:
    module = violation.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    imported = violation.line.removeprefix("import ")
    expected = rf"{re.escape(module)} -> {re.escape(imported)}\s" if imported else module
    assert re.search(expected, broken[violation.contract]), broken
