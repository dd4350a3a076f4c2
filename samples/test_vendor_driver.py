"""The sample driver installed as a vendor would: its suite, its types, its defects."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest
from attrs import frozen

from netfw.testing.conformance.interface import InterfaceDriverConformance
from netfw.testing.lab import sandbox
from tests.nightly import nightly

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "samples" / "vendor_driver"
GUIDE = ROOT / "docs" / "writing-a-driver.md"
NETFW = ("netfw", "netfw_drivers", "setup.cfg", "pyproject.toml", "entry_points.txt")
NETFW_TEXTS = ("README.md", "LICENSE")


def run(*argv: str | Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        argv, cwd=cwd, env={**inherited, **environ}, capture_output=True, text=True, check=False
    )


def copy(source: Path, target: Path) -> None:
    """Copy a file or a tree, so that a build leaves no files in this tree."""
    if source.is_dir():
        unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", ".*_cache")
        shutil.copytree(source, target, ignore=unwanted)
    else:
        shutil.copy(source, target)


@frozen
class Vendor:
    """A vendor's machine: a checkout, and an environment with netfw installed, not linked."""

    home: Path

    @property
    def checkout(self) -> Path:
        return self.home / "acme-netfw"

    @property
    def bin(self) -> Path:
        return self.home / "env" / "bin"

    def netfw(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(self.bin / "netfw", *arguments, cwd=self.home)

    def pytest(self, **environ: str) -> subprocess.CompletedProcess[str]:
        python = self.bin / "python"
        return run(python, "-m", "pytest", "-p", "no:cacheprovider", cwd=self.checkout, **environ)


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Vendor:
    sandbox.require()  # the driver's default is a path in /run
    vendor = Vendor(tmp_path_factory.mktemp("vendor"))
    copy(SAMPLE, vendor.checkout)
    tree = vendor.home / "netfw-tree"
    tree.mkdir()
    for name in (*NETFW, *NETFW_TEXTS):
        copy(ROOT / name, tree / name)
    offline = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    wheels = ("wheel", *offline, "--no-build-isolation", "--wheel-dir", "wheels")
    install = ("--python", vendor.bin / "python", "install", *offline, "--find-links", "wheels")
    for command in (
        ("venv", "--without-pip", "env"),
        ("pip", *wheels, tree, vendor.checkout),
        ("pip", *install, "acme-netfw", "netfw"),
    ):
        done = run(sys.executable, "-m", *command, cwd=vendor.home)
        assert done.returncode == 0, done.stdout + done.stderr
    # The dependencies of netfw come from this environment.  Added last: pip would see them, too.
    (site,) = (vendor.home / "env" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return vendor


@pytest.mark.spec("DRV-10", "DRV-12", "DRV-13")
def test_netfw_drivers_shows_its_options_and_health(vendor: Vendor) -> None:
    done = vendor.netfw("drivers", "show", "acme", "--json")
    assert done.returncode == 0, done.stderr
    (before,) = json.loads(done.stdout)
    assert before["distribution"] == "acme-netfw"
    assert before["interface"] == "InterfaceDriver"
    assert "set its path in [acme] switch" in before["health"]
    assert [option["name"] for option in before["options"]] == ["switch"]
    Path("/run/acme").mkdir()
    done = vendor.netfw("drivers", "show", "acme")
    assert done.returncode == 0, done.stderr
    assert "health: ok" in done.stdout
    assert f"$ netfw drivers show acme\n{done.stdout}```" in GUIDE.read_text()


@pytest.mark.spec("DRV-03", "DRV-30", "DRV-33")
def test_its_own_tests_pass_with_plain_pytest(vendor: Vendor) -> None:
    done = vendor.pytest()
    assert done.returncode == 0, done.stdout
    skipped = set(re.findall(r"does not declare the capability '(\S+)'", done.stdout))
    assert skipped == {"plan", "namespaces", "watch"}
    imported = run(
        vendor.bin / "python",
        "-c",
        "import netfw; print(netfw.__file__)",
        cwd=vendor.checkout,
    )
    assert Path(imported.stdout).is_relative_to(vendor.home)


@pytest.mark.spec("DRV-02")
def test_its_types_are_checked_against_the_installed_netfw(vendor: Vendor) -> None:
    mypy = (sys.executable, "-m", "mypy", "--python-executable", vendor.bin / "python")
    cache = vendor.home / "mypy"
    done = run(*mypy, "--cache-dir", cache, cwd=vendor.checkout)
    assert done.returncode == 0, done.stdout
    driver = vendor.checkout / "src" / "acme_netfw" / "interface.py"
    right = driver.read_text()
    driver.write_text(right.replace("-> Outcome[PortId]", "-> Outcome[str]"))
    try:
        done = run(*mypy, "--cache-dir", cache, cwd=vendor.checkout)
        assert 'of "converge" incompatible with return type' in done.stdout
    finally:
        driver.write_text(right)


@frozen
class Defect:
    """A defect of a driver: *wrong* instead of *right*, and the test that detects it."""

    right: str
    wrong: str
    detected_by: str
    file: str = "interface.py"


DEFECTS = {
    "forgets to remove": Defect(
        "return update.drop | (present",
        "return (present",
        "test_what_is_put_is_so_and_what_is_dropped_is_gone",
    ),
    "forgets the garbage": Defect(
        "present - update.put.keys() - update.keep if update.complete else set()",
        "set()",
        "test_a_complete_update_removes_the_rest",
    ),
    "takes what others made": Defect(
        "and name in taken", "and name in ()", "test_what_the_driver_did_not_make_is_a_conflict"
    ),
    "admits traffic": Defect(
        "former is not None and former.admitted", "True", "test_a_new_port_carries_no_traffic"
    ),
    "trusts an old plan": Defect(
        "ports.get(step.name) != step.before",
        "False",
        "test_a_plan_that_came_too_late_is_refused",
        file="planned.py",
    ),
}
first, *others = DEFECTS.values()


@pytest.mark.spec("DRV-30")
@pytest.mark.parametrize("defect", [first, *map(nightly, others)], ids=DEFECTS.keys())
def test_a_driver_with_a_defect_fails_the_suite(
    vendor: Vendor, tmp_path: Path, defect: Defect
) -> None:
    copy(SAMPLE / "src", tmp_path / "src")
    driver = tmp_path / "src" / "acme_netfw" / defect.file
    assert driver.read_text().count(defect.right) == 1
    driver.write_text(driver.read_text().replace(defect.right, defect.wrong))
    done = vendor.pytest(PYTHONPATH=str(tmp_path / "src"))
    assert done.returncode == 1, done.stdout
    failed = re.findall(r"^FAILED \S+::(\w+)", done.stdout, re.MULTILINE)
    assert any(name.startswith(defect.detected_by) for name in failed), done.stdout
    assert not re.search(r"^E +AssertionError$", done.stdout, re.MULTILINE), (
        "an assertion without values"
    )


QUOTED = re.compile(r"^<!-- (samples/\S+) -->\n+```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_guide_quotes_the_sample_verbatim() -> None:
    blocks = QUOTED.findall(GUIDE.read_text())
    assert {Path(name).name for name, _ in blocks} >= {"interface.py", "test_conformance.py"}
    for name, block in blocks:
        text = (ROOT / name).read_text()
        levels = [textwrap.indent(block, indentation) for indentation in ("", " " * 4)]
        assert any(level in text for level in levels), f"{name} has no such lines:\n{block}"


def test_every_test_that_the_guide_explains_exists() -> None:
    names = re.findall(r"`(test_\w+)(?:\.\.\.)?`", GUIDE.read_text())
    assert len(names) > 10
    for name in names:
        assert any(known.startswith(name) for known in dir(InterfaceDriverConformance)), name
