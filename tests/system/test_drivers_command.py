"""`netfw drivers` as an operator types it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NETFW = Path(sys.executable).with_name("netfw")


def netfw(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([NETFW, *arguments], check=False, capture_output=True, text=True)


@pytest.mark.spec("DRV-13")
def test_every_installed_driver_is_listed_with_where_it_comes_from() -> None:
    done = netfw("drivers", "--json")
    assert done.returncode == 0, done.stderr
    rows = {(row["interface"], row["name"]): row for row in json.loads(done.stdout)}
    null = rows["InterfaceDriver", "null"]
    assert (null["distribution"], null["health"]) == ("netfw", "ok")
    assert "plan" in rows["InterfaceDriver", "openvswitch"]["capabilities"]


@pytest.mark.spec("DRV-13")
def test_a_driver_that_works_with_another_one_says_what_it_can_do() -> None:
    done = netfw("drivers", "show", "dnsmasq", "--json")
    (row,) = json.loads(done.stdout)
    assert "dhcpv6" in row["capabilities"]
    assert "no InterfaceDriver" not in row["health"]


@pytest.mark.spec("ML2-12")
def test_a_driver_of_neutron_is_listed_with_its_own_distribution() -> None:
    done = netfw("drivers", "show", "genericswitch", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["interface"] == "MechanismDriver"
    assert row["distribution"] == "networking-generic-switch"
    assert "config_files must be set" in row["health"]


@pytest.mark.spec("DRV-13")
def test_the_table_has_a_line_for_each() -> None:
    lines = netfw("drivers").stdout.splitlines()
    assert lines[0].split() == [
        "INTERFACE",
        "NAME",
        "DISTRIBUTION",
        "VERSION",
        "CAPABILITIES",
        "HEALTH",
    ]
    assert any(line.startswith("InterfaceDriver") and " null " in line for line in lines)


@pytest.mark.spec("DRV-13", "DRV-12")
def test_show_names_the_options_of_a_driver() -> None:
    done = netfw("drivers", "show", "openvswitch")
    assert done.returncode == 0, done.stderr
    assert "options in [openvswitch]:" in done.stdout
    assert "integration_bridge" in done.stdout
    assert "= br-int" in done.stdout


@pytest.mark.spec("DRV-11")
def test_an_unknown_driver_is_answered_with_the_nearest() -> None:
    done = netfw("drivers", "show", "openvswich")
    assert done.returncode == 1
    assert done.stderr.startswith("netfw: no driver is called 'openvswich', did you mean 'openvs")
    assert "Traceback" not in done.stderr


def test_a_wrong_command_is_answered_with_usage() -> None:
    done = netfw("drvers")
    assert done.returncode == 2
    assert "usage: netfw" in done.stderr


@pytest.mark.spec("DRV-13", "DRV-11")
def test_a_broken_vendor_driver_is_listed_with_its_reason_and_the_rest_go_on(
    tmp_path: Path,
) -> None:
    install(tmp_path, "acme = acme_gone:Acme\n")
    done = run_beside(tmp_path, "drivers", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows["acme"]["distribution"] == "acme-net"
    assert "No module named 'acme_gone'" in rows["acme"]["health"]
    assert rows["null"]["health"] == "ok"


VENDOR = """
{before}
from netfw.drivers.base import DriverInfo
from netfw.drivers.interface import InterfaceDriver
from netfw.plan import Outcome

class Acme(InterfaceDriver):
    VERSION = 2
    @classmethod
    def from_conf(cls, options, host):
        {make}
    def describe(self):
        {describe}
    def problems(self):
        {problems}
    def converge(self, update):
        return Outcome(done=frozenset(update))
    def devices(self):
        return {{}}
    def close(self):
        {close}
"""

GOOD = {
    "before": "",
    "make": "return cls()",
    "describe": "return DriverInfo('acme')",
    "problems": "return ()",
    "close": "pass",
}
STAY = """
import threading
threading.Thread(target=threading.Event().wait, name="stays").start()
"""

DEFECTS = {
    "close_raises": (
        {"close": "raise RuntimeError('boom')"},
        "close raises RuntimeError: boom (in ",
    ),
    "exits_at_close": ({"close": "raise SystemExit(3)"}, "close raises SystemExit: 3"),
    "makes_nothing": ({"make": "return None"}, "from_conf returned None, not a Acme"),
    "makes_another": ({"make": "return InterfaceDriver"}, "from_conf returned <class"),
    "making_exits": ({"make": "raise SystemExit(4)"}, "cannot be made: SystemExit: 4"),
    "exits": ({"before": "raise SystemExit(5)"}, "cannot be imported: SystemExit: 5"),
    "ends_the_process": ({"before": "import os; os._exit(6)"}, "it ended the process (status 6)"),
    "crashes": ({"before": "import os; os.abort()"}, "it ended the process (SIGABRT)"),
    "hangs": ({"make": "import threading; threading.Event().wait()"}, "did not return within 20 s"),
    "describes_nothing": ({"describe": "return None"}, "cannot describe itself"),
    "exits_in_problems": ({"problems": "raise SystemExit(7)"}, "problems raises SystemExit: 7"),
    "has_no_problems": ({"problems": "return None"}, "problems returned None, which is no"),
    "has_a_text": ({"problems": "return 'no switch'"}, "problems returned 'no switch', which"),
    "describes_a_text": ({"describe": "return 'acme'"}, "describe returned 'acme', which is no "),
    "prints": ({"before": "print('{')"}, "ok"),
    "closes_output": ({"before": "import os; os.close(1); os.close(2)"}, "ok"),
    "interrupts": ({"describe": "raise KeyboardInterrupt"}, "KeyboardInterrupt"),
}


REFUSED_IMPORTS = {
    "patches": (
        "import time; time.sleep = print",
        "replaces functions of Python or netfw: time.sl",
    ),
    "patches_netfw": (
        "from netfw.drivers.host_driver import HostDriver; HostDriver.gc = print",
        "replaces functions of Python or netfw: HostDriver.gc",
    ),
    "handles_signals": (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "changes the handlers of SIGTERM",
    ),
    "umask": ("import os; os.umask(0o123)", "changes the umask"),
    "cwd": ("import os; os.chdir('/usr')", "changes the working directory"),
    "stdout": ("import sys, io; sys.stdout = io.StringIO()", "changes sys.stdout"),
    "socket_timeout": (
        "import socket; socket.setdefaulttimeout(3)",
        "changes the default timeout of sockets",
    ),
}

SUSPICIOUS = {
    "prints": ({"before": "print('hello')"}, "its import prints 'hello'"),
    "writes": ({"before": "import os; os.write(2, b'oh')"}, "its import prints 'oh'"),
    "sleeps": ({"before": "import time; time.sleep(3.1)"}, "its import takes"),
    "thread": ({"before": STAY}, "its import starts threads: stays"),
    "opens": ({"before": "import socket; s = socket.socket()"}, "its import opens socket:"),
    "environment": ({"before": "import os; os.environ['ACME'] = '1'"}, "environment: ACME"),
    "logging": ({"before": "import logging; logging.basicConfig()"}, "settings of logging"),
    "seed": ({"before": "import random; random.seed(1)"}, "changes the state of random"),
    "process": (
        {"make": "import subprocess; cls.p = subprocess.Popen(['sleep', '60']); return cls()"},
        "from_conf or describe starts processes",
    ),
    "leaks": (
        {"make": "cls.f = open('/dev/zero'); return cls()"},
        "after close: it opens /dev/zero",
    ),
    "chatty": ({"close": "print('bye')"}, "close prints 'bye'"),
}


@pytest.mark.spec("DRV-11", "DRV-13")
def test_driver_whose_import_changes_the_process_is_refused(tmp_path: Path) -> None:
    for name, (before, _) in REFUSED_IMPORTS.items():
        (tmp_path / f"acme_{name}.py").write_text(VENDOR.format(**GOOD | {"before": before}))
    install(tmp_path, "".join(f"{name} = acme_{name}:Acme\n" for name in REFUSED_IMPORTS))
    rows = listed(tmp_path)
    health = {name: rows[name]["health"] for name in REFUSED_IMPORTS}
    wrong = {name: text for name, text in health.items() if REFUSED_IMPORTS[name][1] not in text}
    assert wrong == {}
    assert rows["null"]["health"] == rows["vxlan"]["health"] == "ok"


@pytest.mark.spec("DRV-13")
def test_suspicious_driver_is_listed_with_a_warning(tmp_path: Path) -> None:
    for name, (change, _) in SUSPICIOUS.items():
        (tmp_path / f"acme_{name}.py").write_text(VENDOR.format(**GOOD | change))
    install(tmp_path, "".join(f"{name} = acme_{name}:Acme\n" for name in SUSPICIOUS))
    rows = listed(tmp_path)
    found = {name: " | ".join(rows[name]["warnings"]) for name in SUSPICIOUS}
    assert {name: text for name, text in found.items() if SUSPICIOUS[name][1] not in text} == {}
    assert {rows[name]["health"] for name in SUSPICIOUS} == {"ok"}
    own = [row for row in rows.values() if row["distribution"] == "netfw"]
    assert {row["name"]: row["warnings"] for row in own if row["warnings"]} == {}


@pytest.mark.spec("DRV-13", "DRV-11")
def test_driver_in_a_misspelt_group_is_listed_with_the_nearest(tmp_path: Path) -> None:
    install(tmp_path, "acme = acme:Acme\n", group="netfw.interface_driver")
    row = listed(tmp_path)["acme"]
    assert row["distribution"] == "acme-net"
    assert row["health"] == (
        "cannot be found: netfw has no group 'netfw.interface_driver', did you mean "
        "'netfw.interface_drivers'?"
    )
    done = run_beside(tmp_path, "drivers", "show", "acme")
    assert done.returncode == 1
    assert done.stderr == (
        "netfw: driver 'acme' of acme-net 1.2: cannot be found: netfw has no group "
        "'netfw.interface_driver', did you mean 'netfw.interface_drivers'?\n"
    )


@pytest.mark.spec("DRV-13", "DRV-11")
@pytest.mark.parametrize("text", [b"acme acme:Acme\n", b"\xff = acme:Acme\n"])
def test_unreadable_entry_points_of_one_distribution_hide_no_other(
    tmp_path: Path, text: bytes
) -> None:
    install(tmp_path, "")
    points = tmp_path / "acme_net-1.2.dist-info" / "entry_points.txt"
    points.write_bytes(b"[netfw.interface_drivers]\n" + text)
    done = run_beside(tmp_path, "drivers", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["distribution"]: row for row in json.loads(done.stdout)}
    assert "its entry_points.txt cannot be read" in rows["acme-net"]["health"]
    assert rows["netfw"]["health"] == "ok"


def test_default_of_a_secret_option_is_hidden(tmp_path: Path) -> None:
    option = "from oslo_config import cfg"
    code = VENDOR.format(**GOOD | {"before": option}).replace(
        "VERSION = 2", "VERSION = 2; OPTIONS = (cfg.StrOpt('pin', default='1234', secret=True),)"
    )
    (tmp_path / "acme.py").write_text(code)
    install(tmp_path, "acme = acme:Acme\n")
    shown = run_beside(tmp_path, "drivers", "show", "acme").stdout
    assert "pin (String) = ***" in shown
    assert "1234" not in shown


@pytest.mark.spec("DRV-13", "DRV-11")
def test_every_driver_is_listed_beside_those_that_raise_exit_crash_or_hang(tmp_path: Path) -> None:
    for name, (change, _) in DEFECTS.items():
        (tmp_path / f"acme_{name}.py").write_text(VENDOR.format(**GOOD | change))
    install(tmp_path, "".join(f"{name} = acme_{name}:Acme\n" for name in DEFECTS))
    done = run_beside(tmp_path, "drivers", "--json", "--timeout", "20")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows.keys() >= DEFECTS.keys()
    health = {name: rows[name]["health"] for name in DEFECTS}
    assert {name: text for name, text in health.items() if DEFECTS[name][1] not in text} == {}
    assert rows["null"]["health"] == rows["vxlan"]["health"] == "ok"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"make": "raise KeyError('stat')"}, 1),
        ({"make": "return None"}, 1),
        ({"describe": "return 'acme'"}, 1),
        ({"describe": "raise KeyboardInterrupt"}, 1),
        ({"make": "from netfw.errors import ConfigError; raise ConfigError('no switch')"}, 0),
        ({"problems": "return ('no switch answers',)"}, 0),
    ],
)
def test_show_fails_for_a_driver_that_cannot_be_made(
    tmp_path: Path, change: dict[str, str], status: int
) -> None:
    (tmp_path / "acme.py").write_text(VENDOR.format(**GOOD | change))
    install(tmp_path, "acme = acme:Acme\n")
    done = run_beside(tmp_path, "drivers", "show", "acme")
    assert done.returncode == status, done.stdout + done.stderr
    assert "InterfaceDriver acme" in done.stdout


def install(directory: Path, points: str, group: str = "netfw.interface_drivers") -> None:
    info = directory / "acme_net-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-net\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{points}")


def listed(directory: Path) -> dict[str, Any]:
    done = run_beside(directory, "drivers", "--json")
    assert done.returncode == 0, done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)}


def run_beside(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [NETFW, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(directory)},
    )
