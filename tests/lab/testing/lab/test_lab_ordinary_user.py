"""A lab of an ordinary user, without root.

The machine's own ``/dev/net/tun`` is not touched: it is hidden, in a mount namespace of the test's,
by a device node with the permissions that the test is about.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.launcher import NO_SANDBOX

pytestmark = pytest.mark.spec("DRV-32")

USER = 1234
# Everything on the way to the interpreter that only root may pass is replaced by a copy of the
# same name that leads nowhere else.
PREPARE = """
set -e
tun=$1 home=$2 prefix=$3; shift 3
mount -t tmpfs tmpfs /run
mkdir -p /run/user-test/python
mknod /run/user-test/tun c 10 200
chmod $tun /run/user-test/tun
mount --bind /run/user-test/tun /dev/net/tun
if [ -n "$home" ]; then
    mount --bind "$prefix" /run/user-test/python
    mount -t tmpfs -o mode=755 tmpfs "$home"
    mkdir -p "$prefix"
    mount --move /run/user-test/python "$prefix"
fi
exec setpriv --reuid 1234 --regid 1234 --clear-groups --inh-caps=-all --bounding-set=-all "$@"
"""


def closed_directory_above(path: Path) -> str:
    """Return the topmost directory above *path* that an ordinary user cannot enter; empty: none."""
    for directory in reversed([path, *path.parents]):
        if not directory.stat().st_mode & 0o001:
            return str(directory)
    return ""


class OrdinaryUser:
    """Runs commands as a user without privileges, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
        self.environment = {**kept, "LOGNAME": "somebody", "HOME": str(directory)}

    def run(self, *argv: str, tun: str = "0666") -> subprocess.CompletedProcess[str]:
        prefix = Path(sys.base_prefix)
        prepare = ["sh", "-c", PREPARE, "sh", tun, closed_directory_above(prefix), str(prefix)]
        return subprocess.run(
            ["unshare", "--mount", *prepare, *argv],
            cwd=self.directory, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def netfw(self, *words: str, status: int = 0, tun: str = "0666") -> str:
        done = self.run(
            sys.executable, "-P", "-m", "netfw.cli.commands.main", "lab", *words, tun=tun
        )
        assert done.returncode == status, done.stderr
        return done.stdout if status == 0 else done.stderr


@pytest.fixture
def ordinary_user() -> Iterator[OrdinaryUser]:
    if Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
        pytest.skip("the suite itself runs as an ordinary user: every other test shows it")
    with tempfile.TemporaryDirectory(prefix="netfw-ordinary-") as directory:
        os.chown(directory, USER, USER)
        (Path(directory) / "run").mkdir(mode=0o700)
        os.chown(Path(directory) / "run", USER, USER)
        user = OrdinaryUser(Path(directory))
        user.environment["XDG_RUNTIME_DIR"] = f"{directory}/run"
        yield user


SUITE = """
import os
from netfw.testing.lab.instance import Plug

def test_the_user_is_nobody_outside():
    assert open("/proc/self/uid_map").read().split() == ["0", "1234", "1"]

def test_lab(make_lab):
    host = make_lab(hosts=2, bridges=["br-int"]).hosts["host1"]
    plugs = [
        Plug(bridge="br-int", device=f"tap{n}", addresses=[f"10.0.0.{n}/24"]) for n in (1, 2)
    ]
    one, two = (host.instance(f"vm-{plug.device}", plug) for plug in plugs)
    assert one.ping("10.0.0.2").lost == 0
    host.run(["sysctl", "-w", "net.ipv4.ip_forward=1"])
    host.run(["iptables", "-A", "FORWARD", "-j", "ACCEPT"])
    host.run(["ip", "netns", "exec", "vm-tap1", "ip", "link"])
    assert set(host.call(os.listdir, "/sys/class/net")) >= {"eth0", "br-phy", "tap1"}

def test_switch(ovs):
    ovs.add_bridge("br0")
"""


def test_pytest_needs_no_root(ordinary_user: OrdinaryUser) -> None:
    suite = ordinary_user.directory / "test_of_ordinary_user.py"
    suite.write_text(SUITE)
    suite.chmod(0o644)
    done = ordinary_user.run(sys.executable, "-m", "pytest", "--sandbox", str(suite))
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_the_command_needs_no_root(ordinary_user: OrdinaryUser) -> None:
    ordinary_user.netfw("up", "--hosts", "2")
    assert "host2" in ordinary_user.netfw("show")
    assert ordinary_user.netfw("exec", "host2", "hostname") == "host2\n"
    assert ordinary_user.netfw("exec", "host1", "id", "-u") == "0\n"
    ordinary_user.netfw("exec", "host1", "ping", "-c1", "-W2", "198.18.0.2")
    ordinary_user.netfw("exec", "host1", "ip", "netns", "add", "qrouter-1")
    assert "lo" in ordinary_user.netfw("exec", "host1/qrouter-1", "ip", "-br", "link")
    ordinary_user.netfw("down")
    assert "No lab is up" in ordinary_user.netfw("show")


def test_root_only_tun_device_is_reported_with_the_remedy(ordinary_user: OrdinaryUser) -> None:
    output = ordinary_user.netfw("up", status=1, tun="0600")
    assert "/dev/net/tun may not be opened" in output
    assert "use sudo" in output
    assert list((ordinary_user.directory / "run").iterdir()) == []


def test_kernel_without_user_namespaces_is_reported_with_the_remedy(
    ordinary_user: OrdinaryUser,
) -> None:
    # The setting belongs to a user namespace; the machine keeps its own.
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    prefix = ["unshare", "--user", "--map-user=1234", "--keep-caps", "sh", "-c", forbid, "sh"]
    command = [sys.executable, "-P", "-m", "netfw.cli.commands.main", "lab", "up"]
    for argv, status in ((sandbox.command(["true"]), NO_SANDBOX), (command, 1)):
        done = ordinary_user.run(*prefix, *argv)
        assert done.returncode == status, done.stderr
        assert "sysctl -w user.max_user_namespaces=10000" in done.stderr
        assert "use sudo" in done.stderr


HALF = """
import errno
from netfw.linux import syscalls
from netfw.testing.lab import lab_syscalls, launcher
real = syscalls.unshare
def unshare(flags):
    if flags != lab_syscalls.CLONE_NEWUSER:
        raise OSError(errno.EPERM, "Operation not permitted")
    real(flags)
syscalls.unshare = unshare
launcher.main(["true"])
"""


def test_user_namespace_without_capabilities_as_on_ubuntu_is_reported_with_the_remedy(
    ordinary_user: OrdinaryUser,
) -> None:
    done = ordinary_user.run(sys.executable, "-P", "-c", HALF)
    assert done.returncode == NO_SANDBOX
    assert "an ordinary user may not do this here; use sudo" in done.stderr
