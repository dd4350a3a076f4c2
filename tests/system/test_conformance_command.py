"""``netfw conformance`` on packages that keep their promises, break them, or lack a suite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

DRIVER = """
from netfw_drivers.ipam.internal import InternalIpamDriver

class AcmeIpam(InternalIpamDriver):
    VERSION = 2

class ForgetfulIpam(AcmeIpam):
    VERSION = 2

    def release(self, fixed_ip, store):
        pass

class RaisingIpam(AcmeIpam):
    VERSION = 2

    def release(self, fixed_ip, store):
        raise KeyError("lease")
"""
CONFORMANCE = """
from acme_ipam.driver import {driver}
from netfw.testing.conformance import IpamDriverConformance

class TestAcmeIpam(IpamDriverConformance):
    def make_driver(self):
        return {driver}()
"""
NO_ENVIRONMENT = """
from netfw.testing.conformance import IpamDriverConformance

class TestAcmeIpam(IpamDriverConformance):
    def make_driver(self):
        return None

    def setup_method(self):
        raise OSError("no device answers")
"""
BROKEN_HOOKS = {
    "raises": (
        "(self):\n        raise RuntimeError('hook broken')",
        7,
        "RuntimeError: hook broken",
    ),
    "cannot_be_called": ("(self, host):\n        pass", 6, "TypeError: TestAcmeIpam.make_driver()"),
}
UNTRIED = (
    CONFORMANCE.format(driver="AcmeIpam")
    + """
    def untried_contracts(self):
        return {"IpamDriver": "there is no pool"}
"""
)


@frozen
class Site:
    """A directory with the installed package ``acme-ipam``."""

    path: Path

    def install(self, driver: str, suite: str | None = None, *, registers: bool = True) -> None:
        package = self.path / "acme_ipam"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "driver.py").write_text(DRIVER)
        groups = [f"[netfw.ipam_drivers]\nacme = acme_ipam.driver:{driver}\n"]
        if suite is not None:
            (package / "conformance.py").write_text(suite)
            groups += ["[netfw.conformance]\nacme = acme_ipam.conformance\n"] if registers else []
        self.describe("acme-ipam", "\n".join(groups))

    def describe(self, name: str, points: str) -> None:
        info = self.path / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "netfw.cli.commands.main", "conformance", *arguments],
            cwd=self.path,
            env={**os.environ, "PYTHONPATH": str(self.path)},
            capture_output=True,
            text=True,
            check=False,
        )

    def rows(self, *arguments: str | Path, status: int) -> dict[str, dict[str, Any]]:
        """Return the rows by promise."""
        done = self.run("acme-ipam", "--json", *arguments)
        assert done.returncode == status, done.stdout + done.stderr
        return {row["promise"]: row for row in json.loads(done.stdout)}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.spec("DRV-31")
def test_promises_that_are_kept_are_listed_with_their_sentences(site: Site) -> None:
    site.install("AcmeIpam", CONFORMANCE.format(driver="AcmeIpam"))
    rows = site.rows(status=0)
    assert {row["state"] for row in rows.values()} == {"kept"}
    assert [f"IpamDriver {number}" in rows for number in range(1, 6)] == [True] * 5
    third = rows["IpamDriver 3"]["sentence"]
    assert third == "release frees an address; releasing a free address succeeds."
    assert "the text names the subnet" in rows["IpamDriver.allocate Conflict"]["sentence"]
    assert "IpamDriver.allocate InvalidInput" in rows


@pytest.mark.spec("DRV-31")
def test_broken_promise_has_the_assertion_and_fails_the_command(site: Site) -> None:
    site.install("ForgetfulIpam", CONFORMANCE.format(driver="ForgetfulIpam"))
    rows = site.rows(status=1)
    assert rows["IpamDriver 3"]["state"] == "broken"
    assert rows["IpamDriver 3"]["reason"].startswith("test_")
    assert "\n" not in rows["IpamDriver 3"]["reason"]
    assert rows["IpamDriver 2"]["state"] == "kept"
    done = site.run("acme-ipam")
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "IpamDriver 3 " in line]
    assert "broken" in line
    assert line.endswith(f"  {rows['IpamDriver 3']['reason']}")
    assert "--verbose" in done.stdout.splitlines()[-2]
    assert done.stdout.splitlines()[-1].endswith("0 not tried")


def test_driver_without_a_suite_is_not_tried_and_the_missing_hook_is_named(site: Site) -> None:
    site.install("AcmeIpam", CONFORMANCE.format(driver="AcmeIpam"), registers=False)
    row = site.rows(status=3)["Driver"]
    assert row["state"] == "not tried"
    assert "IpamDriverConformance with the hooks make_driver" in row["reason"]
    assert "netfw.conformance" in row["reason"]
    tests = site.path / "acme_ipam" / "conformance.py"
    assert site.rows("--tests", tests, status=0)["IpamDriver 1"]["state"] == "kept"


def test_suite_that_lacks_a_hook_is_not_tried_and_the_row_has_the_line_of_the_class(
    site: Site,
) -> None:
    suite = CONFORMANCE.format(driver="AcmeIpam").partition("    def make_driver")[0]
    site.install("AcmeIpam", f"{suite}    pass\n")
    row = site.rows(status=3)["Driver"]
    assert row["state"] == "not tried"
    assert row["reason"].startswith("TestAcmeIpam lacks hooks: override make_driver;")
    assert row["reason"].endswith("acme_ipam/conformance.py, line 5)")


@pytest.mark.parametrize("module", ["acme_ipam.suites", "acme.conformance"])
def test_registered_module_that_does_not_exist_is_named(site: Site, module: str) -> None:
    site.install("AcmeIpam", registers=False)
    points = site.path / "acme_ipam-1.0.dist-info" / "entry_points.txt"
    points.write_text(f"{points.read_text()}\n[netfw.conformance]\nacme = {module}\n")
    done = site.run("acme-ipam")
    assert done.returncode == 1
    assert f"there is no module {module}" in done.stderr
    assert "netfw.conformance" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_suite_without_its_environment_is_incomplete(site: Site) -> None:
    site.install("AcmeIpam", NO_ENVIRONMENT)
    row = site.rows(status=3)["IpamDriver 1"]
    assert row["state"] == "not tried"
    assert "no device answers" in row["reason"]


@pytest.mark.parametrize("hook", BROKEN_HOOKS)
def test_hook_that_is_wrong_is_reported_with_its_line_and_breaks_no_promise(
    site: Site, hook: str
) -> None:
    code, line, error = BROKEN_HOOKS[hook]
    whole = CONFORMANCE.format(driver="AcmeIpam")
    site.install("AcmeIpam", whole.partition("(self):")[0] + code)
    rows = site.rows(status=3)
    assert {row["state"] for name, row in rows.items() if name != "Driver"} == {"not tried"}
    reason = rows["IpamDriver 1"]["reason"]
    assert reason.startswith(f"error in the hook make_driver: {error}")
    assert reason.endswith(f"acme_ipam/conformance.py, line {line})")


def test_promise_broken_by_an_error_of_the_driver_names_its_file_and_line(site: Site) -> None:
    site.install("RaisingIpam", CONFORMANCE.format(driver="RaisingIpam"))
    row = site.rows(status=1)["IpamDriver 3"]
    assert row["state"] == "broken"
    assert "KeyError: 'lease' (in " in row["reason"]
    assert row["reason"].endswith("acme_ipam/driver.py, line 17)")


@pytest.mark.spec("DRV-31")
def test_promise_that_passed_tests_did_not_try_is_not_reported_as_kept(site: Site) -> None:
    site.install("AcmeIpam", UNTRIED)
    rows = site.rows(status=0)
    assert {rows[f"IpamDriver {number}"]["state"] for number in range(1, 6)} == {"not tried"}
    assert rows["IpamDriver 1"]["reason"] == "there is no pool"


def test_driver_that_cannot_be_loaded_is_broken(site: Site) -> None:
    site.install("NoSuchClass")
    row = site.rows(status=1)["Driver"]
    assert row["state"] == "broken"
    assert "cannot be imported" in row["reason"]


def test_suite_that_cannot_be_imported_is_reported_in_one_line(site: Site) -> None:
    site.install("AcmeIpam", "import no_such_module\n")
    done = site.run("acme-ipam")
    assert done.returncode == 1
    assert "No module named 'no_such_module'" in done.stderr
    assert "acme_ipam/conformance.py, line 1)" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_suite_with_a_syntax_error_is_reported_with_file_and_line(site: Site) -> None:
    site.install("AcmeIpam", "import sys\n\ndef (:\n")
    done = site.run("acme-ipam")
    assert done.returncode == 1
    assert "SyntaxError: invalid syntax (in " in done.stderr
    assert "acme_ipam/conformance.py, line 3)" in done.stderr


@pytest.mark.parametrize(
    ("package", "text"),
    [
        ("no-such-package", "no distribution 'no-such-package' is installed here"),
        ("acme-idle", "registers no driver: none of its entry points is in a group of netfw"),
        ("acme-typo", "registers no driver: netfw has no group 'netfw.ipam_driver', did you mean"),
        ("", "no distribution '' is installed here"),
    ],
)
def test_package_without_drivers_is_wrong_usage(site: Site, package: str, text: str) -> None:
    site.describe("acme-idle", "[console_scripts]\nidle = acme_idle:main\n")
    site.describe("acme-typo", "[netfw.ipam_driver]\nacme = acme_ipam.driver:AcmeIpam\n")
    done = site.run(package)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr


def test_name_of_a_driver_is_refused_with_the_package_that_has_it(site: Site) -> None:
    site.install("AcmeIpam")
    done = site.run("acme")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "netfw: 'acme' is a driver of the package acme-ipam: name the package\n"


def test_tests_that_do_not_exist_are_wrong_usage(site: Site) -> None:
    site.install("AcmeIpam")
    done = site.run("acme-ipam", "--tests", "nowhere")
    assert done.returncode == 2
    assert "there is no nowhere" in done.stderr
