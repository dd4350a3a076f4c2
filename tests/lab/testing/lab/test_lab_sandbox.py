"""The sandbox: it hides the machine, ends as its command ends, and leaves nothing.

These tests run in a sandbox themselves, which stands for the machine: what they start is a sandbox
within, watched from outside.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.launcher import NO_SANDBOX
from netfw.testing.lab.namespaces import NamespaceContext
from netfw.testing.lab.wait import wait_until

pytestmark = pytest.mark.spec("DRV-32")

PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--sandbox"]


def start(*argv: str, **options: object) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(sandbox.command(argv), **{**pipes, **options})


def run(*argv: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        sandbox.command(argv), capture_output=True, text=True, check=False, **options
    )


def await_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def processes() -> set[str]:
    return {name for name in os.listdir("/proc") if name.isdigit()}


def machine() -> dict[str, object]:
    """Return all state of this machine that a sandbox could change."""
    ip = {
        what: NamespaceContext().run(["ip", *what.split()])
        for what in (
            "link",
            "addr",
            "route show table all",
            "-6 route show table all",
            "rule",
            "netns",
        )
    }
    settings = {
        path: Path("/proc/sys/net", path).read_text()
        for path in ("ipv4/ip_forward", "ipv4/conf/all/rp_filter", "ipv6/conf/all/forwarding")
    }
    return {
        **ip,
        **settings,
        "processes": processes(),
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "run": sorted(os.listdir("/run")),
        "sys": sorted(os.listdir("/sys/class/net")),
        "hostname": os.uname().nodename,
    }


@pytest.fixture
def furnished() -> Iterator[None]:
    """Add a network that could be harmed to this machine, until the test ends."""
    place = NamespaceContext()
    place.ip(
        "link add mine type veth peer name other",
        # No addresses that change by themselves.
        *(f"link set {name} addrgenmode none up" for name in ("other", "mine")),
        "addr add 192.0.2.1/24 dev mine",
    )
    # Until the kernel has handled the carriers, states and routes change by themselves.
    for name in ("other", "mine"):
        link = ["ip", "-o", "link", "show", "dev", name]
        wait_until(lambda link=link: "state UP" in place.run(link), f"{name} is up")
    place.ip("route add 203.0.113.0/24 via 192.0.2.2", "rule add fwmark 7 table 9")
    place.run(["ip", "netns", "add", "qrouter-mine"])
    yield
    place.ip("link del mine", "rule del fwmark 7", "netns del qrouter-mine")


@pytest.mark.parametrize("status", [0, 1, 42])
def test_the_status_of_the_command_is_the_status(status: int) -> None:
    assert run("sh", "-c", f"exit {status}").returncode == status


def test_a_command_killed_by_a_signal_is_reported_as_such() -> None:
    assert run("sh", "-c", "kill -9 $$").returncode == -signal.SIGKILL
    assert run("sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


def test_nonexistent_command_is_reported() -> None:
    done = run("nosuchcommand")
    assert (done.returncode, done.stderr) == (
        127,
        "netfw: nosuchcommand: No such file or directory\n",
    )


def test_the_network_within_is_empty_and_the_machine_is_out_of_sight(furnished: None) -> None:
    look = "ip -br link | wc -l; ls /sys/class/net; ls /run /run/netns 2>/dev/null; ps ax | wc -l"
    # Two devices at most: loopback, and what the kernel adds to every namespace.
    links, *rest = run("sh", "-c", look).stdout.splitlines()
    assert int(links) <= 2
    assert "mine" not in rest
    assert "qrouter-mine" not in rest


def test_directory_environment_files_and_temporary_files_are_the_callers(tmp_path: Path) -> None:
    script = 'pwd; echo "$MARK"; echo real > file; ls -d /tmp'
    done = run("sh", "-c", script, cwd=tmp_path, env={**os.environ, "MARK": "kept"})
    assert done.stdout.split() == [str(tmp_path), "kept", "/tmp"]
    assert (tmp_path / "file").read_text() == "real\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_reaches_the_command_once(number: int) -> None:
    process = start(sys.executable, "-c", COUNTING)
    assert await_line(process) == "ready"
    process.send_signal(number)
    assert process.communicate(timeout=20)[0].split() == [str(int(number))]


def test_a_signal_for_the_whole_group_reaches_the_command_once() -> None:
    process = start(sys.executable, "-c", COUNTING, start_new_session=True)
    assert await_line(process) == "ready"
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=20)[0].split() == [str(int(signal.SIGINT))]


COUNTING = """
import signal, time
seen = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda number, frame: seen.append(int(number)))
print("ready", flush=True)
while not seen:
    time.sleep(0.001)
time.sleep(0.3)
print(*seen)
"""


def test_ctrl_c_on_a_terminal_reaches_the_command_once() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, sandbox.command([sys.executable, "-c", COUNTING]))
    with open(terminal, "r+b", buffering=0) as screen:
        assert screen.readline() == b"ready\r\n"
        screen.write(b"\x03")
        assert screen.readline().split() == [b"^C2"]
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_orphans_within_are_reaped() -> None:
    # A process that has ended keeps its pid until it is reaped.
    orphan = "orphan=$(sh -c 'sleep 0.05 > /dev/null & echo $!')"
    look = f"{orphan}; while kill -0 $orphan 2> /dev/null; do sleep 0.01; done"
    assert run("sh", "-c", look, timeout=60).returncode == 0


def test_what_the_command_leaves_running_ends_with_it() -> None:
    before = processes()
    run("sh", "-c", "sleep 1000 > /dev/null 2>&1 & setsid sleep 1000 > /dev/null 2>&1 &")
    assert processes() == before


@pytest.mark.parametrize("victim", ["launcher", "init", "command"])
def test_killing_any_process_of_it_leaves_nothing(victim: str, furnished: None) -> None:
    before = machine()
    process = start("sh", "-c", "ip link add a type veth peer name b; sleep 1000 & echo up; wait")
    assert await_line(process) == "up"
    init = _child(process.pid)
    pid = {"launcher": process.pid, "init": init, "command": _child(init)}[victim]
    os.kill(pid, signal.SIGKILL)
    with process:
        process.wait(60)
    assert eventually(lambda: processes() == before["processes"])
    assert machine() == before


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def test_a_machine_that_refuses_is_explained() -> None:
    refuse = "import errno, os\nfrom netfw.testing.lab import launcher\n" + (
        "def no(flags): raise OSError(errno.EPERM, 'Operation not permitted')\n"
        "launcher.syscalls.unshare = no\nlauncher.main(['true'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", refuse], capture_output=True, text=True, check=False
    )
    assert done.returncode == NO_SANDBOX
    assert "no sandbox on this machine (Operation not permitted)" in done.stderr


TESTS = """
import os, time
from netfw.testing.lab import sandbox

def test_lab(lab):
    lab.hosts["host1"].run(["ip", "netns", "add", "qrouter-mine"])
    lab.hosts["host1"].run(["sysctl", "-w", "net.ipv4.ip_forward=1"])
    assert lab.hosts["host2"].run(["ip", "netns"]) == ""

def test_switch(ovs):
    ovs.add_bridge("mine")

def test_failing():
    print("some output")
    assert 1 == 2

def test_after():
    pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    file = tmp_path / "test_within.py"
    file.write_text(TESTS)
    return file


def test_pytest_runs_within_as_it_does_without(suite: Path, furnished: None) -> None:
    before = machine()
    done = _pytest(suite, "-x", "--color=yes")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 failed" in done.stdout
    assert "2 passed" in done.stdout
    assert "some output" in done.stdout
    assert "\x1b[31m" in done.stdout
    assert "test_after" not in done.stdout
    assert machine() == before


def test_pytest_takes_its_options_and_says_its_status(suite: Path) -> None:
    assert "1 passed, 3 deselected" in _pytest(suite, "-k", "after").stdout
    assert _pytest(suite, "-k", "nothing").returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    assert _pytest(suite, "--nosuch").returncode == pytest.ExitCode.USAGE_ERROR


def _pytest(suite: Path, *options: str) -> subprocess.CompletedProcess[str]:
    # As a machine would: not in a sandbox yet, so that pytest has to make one.
    return subprocess.run(
        [*PYTEST, *options, str(suite)], cwd=suite.parent, env=_outside(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def _outside() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != sandbox.INSIDE}


WAITING = """
import os, time
def test_waiting(lab):
    lab.hosts["host1"].spawn(["sleep", "1000"])
    os.write({descriptor}, b"up")
    time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_pytest_leaves_nothing(tmp_path: Path, number: int, furnished: None) -> None:
    before = machine()
    reader, writer = os.pipe()
    suite = tmp_path / "test_waiting.py"
    suite.write_text(WAITING.format(descriptor=writer))
    # Whoever runs these tests in the background of a shell has them ignore SIGINT.
    heeding = ["env", "--default-signal=INT"]
    with subprocess.Popen(
        [*heeding, *PYTEST, str(suite)], cwd=tmp_path, env=_outside(), pass_fds=[writer],
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        os.close(writer)
        try:
            assert os.read(reader, 2) == b"up"
            process.send_signal(number)
            output, _ = process.communicate(timeout=30)
        finally:
            process.kill()
            os.close(reader)
    if number == signal.SIGINT:
        assert process.returncode == pytest.ExitCode.INTERRUPTED
        assert "KeyboardInterrupt" in output
    else:
        assert process.returncode == -number
    assert eventually(lambda: processes() == before["processes"])
    assert machine() == before


def test_two_runs_side_by_side_do_not_meet(suite: Path) -> None:
    runs = [
        subprocess.Popen(
            [*PYTEST, "-k", "lab or switch", str(suite)], cwd=suite.parent, env=_outside(),
            stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for one in runs:
        output, _ = one.communicate(timeout=60)
        assert "2 passed" in output
        assert one.returncode == 0


APART = """
import os, time
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_apart(number, worker_id):
    mine = Path(f"/run/{worker_id}")
    mine.touch()
    if number == 1:
        os.system("ip link add only type veth peer name here")
    deadline = time.monotonic() + 60
    while len(list(Path(os.environ["MEETING"]).iterdir())) < 2:
        Path(os.environ["MEETING"], worker_id).touch()
        assert time.monotonic() < deadline, "the other one did not come"
        time.sleep(0.01)
    assert [path.name for path in Path("/run").iterdir()] == [worker_id]
    devices = {"lo", "only", "here"} if number == 1 else {"lo"}
    assert set(os.listdir("/sys/class/net")) == devices
"""


def test_workers_of_one_run_do_not_meet_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite, meeting = tmp_path / "test_apart.py", tmp_path / "meeting"
    suite.write_text(APART)
    meeting.mkdir()
    monkeypatch.setenv("MEETING", str(meeting))
    done = _pytest(suite, "-n", "2")
    assert "2 passed" in done.stdout, done.stdout
