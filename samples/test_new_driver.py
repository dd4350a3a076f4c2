"""The package that ``netfw new-driver`` writes for each contract works, is typed and is tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest
from attrs import frozen

from netfw.cli.commands.main import main
from netfw.cli.scaffold.kinds import all_kinds
from netfw.testing.lab import sandbox
from tests.nightly import nightly

ROOT = Path(__file__).parents[1]
SELECTED = {
    "dhcp": "what_is_put_is_so or first_lease or empty_update",
    "router": "what_is_put_is_so or empty_update",
    "switch": "what_is_put_is_so or empty_update or planning_is_pure",
}
"""Tests of the suites that take minutes; netfw's own drivers, of which these are subclasses, pass
all of them in other steps."""


@frozen
class Vendors:
    """Checkouts of packages of all kinds, installed in one directory."""

    home: Path

    @property
    def site(self) -> Path:
        return self.home / "site"

    def checkout(self, kind: str) -> Path:
        return self.home / f"acme-{kind}"

    @property
    def import_path(self) -> str:
        sources = [str(self.checkout(kind) / "src") for kind in all_kinds()]
        return os.pathsep.join([str(self.site), *sources])

    def run(self, *argv: str | Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *argv],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": self.import_path, **environ},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def vendors(tmp_path_factory: pytest.TempPathFactory) -> Vendors:
    sandbox.require()
    vendors = Vendors(tmp_path_factory.mktemp("vendors"))
    for kind in all_kinds():
        assert main(["new-driver", kind, f"acme-{kind}", "--directory", str(vendors.home)]) == 0
        install(vendors.checkout(kind), vendors.site)
    return vendors


def install(checkout: Path, site: Path) -> None:
    """Write the metadata of an installed distribution, as pip does for an editable one."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    name = f"Name: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\n{name}")
    points = ConfigParser()
    points.read_dict(project["entry-points"])
    with (info / "entry_points.txt").open("w") as file:
        points.write(file)


@pytest.mark.spec("DRV-31")
@pytest.mark.parametrize(
    "kind", [nightly(kind) if kind in ("metadata", "transport") else kind for kind in all_kinds()]
)
def test_its_own_tests_pass_with_plain_pytest(vendors: Vendors, kind: str) -> None:
    selected = ["-k", SELECTED[kind]] if kind in SELECTED else []
    quiet = ("-q", "-p", "no:cacheprovider", *selected)
    done = vendors.run("pytest", *quiet, cwd=vendors.checkout(kind))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.spec("DRV-31")
def test_each_is_listed_by_netfw_drivers_and_can_be_loaded(vendors: Vendors) -> None:
    done = vendors.run("netfw.cli.commands.main", "drivers", "--json", cwd=vendors.home)
    assert done.returncode == 0, done.stderr
    found = {row["distribution"]: row for row in json.loads(done.stdout)}
    for name, kind in all_kinds().items():
        row = found[f"acme-{name}"]
        assert row["interface"] == kind.contract.__name__
        assert "cannot be" not in row["health"], row
        assert "defect" not in row["health"], row


@pytest.mark.nightly
@pytest.mark.spec("DRV-31")
def test_types_and_style_of_each_are_clean(vendors: Vendors, tmp_path: Path) -> None:
    checkouts = [vendors.checkout(kind) for kind in all_kinds()]
    packages = [word for each in checkouts for word in ("-p", each.name.replace("-", "_"))]
    config = ("--config-file", checkouts[0] / "pyproject.toml", "--cache-dir", tmp_path)
    sources = os.pathsep.join([str(ROOT), *(str(each / "src") for each in checkouts)])
    mypy = ("mypy", *config, "--strict", "--follow-imports=silent", *packages)
    done = vendors.run(*mypy, cwd=vendors.home, MYPYPATH=sources)
    assert done.returncode == 0, done.stdout
    for command in (("check",), ("format", "--check")):
        done = vendors.run("ruff", *command, "--no-cache", *checkouts, cwd=vendors.home)
        assert done.returncode == 0, done.stdout


@pytest.mark.spec("DRV-31")
def test_promises_of_a_new_driver_are_kept(vendors: Vendors) -> None:
    command = ("netfw.cli.commands.main", "conformance", "acme-interface", "--json")
    done = vendors.run(*command, cwd=vendors.home)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["promise"]: row["state"] for row in json.loads(done.stdout)}
    assert rows["HostDriver 1"] == rows["InterfaceDriver 1"] == "kept"
    driver = vendors.checkout("interface") / "src" / "acme_interface" / "driver.py"
    right = driver.read_text()
    driver.write_text(right.replace("unwanted = set(update.drop)", "unwanted = set()"))
    try:
        done = vendors.run(*command, cwd=vendors.home)
    finally:
        driver.write_text(right)
    assert done.returncode == 1, done.stdout + done.stderr
    rows = {row["promise"]: row["state"] for row in json.loads(done.stdout)}
    assert rows["HostDriver 1"] == "broken"
    assert rows["HostDriver 7"] == "kept"


@pytest.mark.spec("DRV-31")
def test_a_new_package_is_installed_by_pip(vendors: Vendors, tmp_path: Path) -> None:
    offline = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    target = ("--no-build-isolation", "--target", tmp_path / "site")
    checkout = vendors.checkout("interface")
    done = vendors.run("pip", "install", *offline, *target, checkout, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "acme_interface" / "py.typed").exists()
    show = ("netfw.cli.commands.main", "drivers", "show", "acme_interface", "--json")
    done = vendors.run(*show, cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    (row,) = json.loads(done.stdout)
    assert (row["distribution"], row["interface"]) == ("acme-interface", "InterfaceDriver")
    assert "[acme_interface] state" in row["health"]
