"""``netfw lab``, as a person uses it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from netfw.cli.commands.main import main
from netfw.testing.lab import sandbox

pytestmark = pytest.mark.spec("DRV-32")

TOPOLOGY = """
hosts = 2
provider = ["physnet1"]

[[instances]]
name = "vm1"
host = "host1"
bridge = "br-int"
addresses = ["10.0.0.1/24"]

[[instances]]
name = "vm2"
host = "host1"
bridge = "br-int"
kind = "internal"
addresses = ["10.0.0.2/24"]
"""


class Command:
    """``netfw lab`` of a user with an empty run directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(directory)}

    def __call__(self, *words: str, status: int = 0) -> str:
        """Return the standard output of the command if it succeeds, else its standard error.

        It runs in a copy of this process, which has all modules loaded already.
        """
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as error:
            child = os.fork()
            if child == 0:
                self._be(words, output.fileno(), error.fileno())
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            for file in (output, error):
                file.seek(0)
            assert ended == status, error.read()
            return output.read() if status == 0 else error.read()

    def _be(self, words: tuple[str, ...], output: int, error: int) -> NoReturn:
        os.dup2(output, 1)
        os.dup2(error, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        os.environ.update(self.environment)
        status = 255
        try:
            status = main(["lab", *words])
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def line(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "netfw.cli.commands.main", "lab", *words]

    def record(self, name: str) -> dict[str, object]:
        return json.loads((self.directory / "netfw-lab" / f"{name}.json").read_text())


@pytest.fixture
def lab_command() -> Iterator[Command]:
    with tempfile.TemporaryDirectory(dir="/run") as directory:
        command = Command(Path(directory))
        yield command
        command("down", "--all")


def processes() -> set[str]:
    return {name for name in os.listdir("/proc") if name.isdigit()}


def await_processes(wanted: set[str]) -> None:
    deadline = time.monotonic() + 60
    while processes() - wanted:
        assert time.monotonic() < deadline, processes() - wanted
        time.sleep(0.005)


def test_a_lab_comes_up_is_shown_used_and_taken_down(lab_command: Command) -> None:
    before = processes()
    assert "Lab 'lab' is up with 3 hosts" in lab_command("up")
    table = lab_command("show").splitlines()
    assert table[0].split()[:2] == ["LAB", "HOST"]
    assert [line.split()[1] for line in table[1:]] == ["host1", "host2", "host3"]
    (shown,) = json.loads(lab_command("show", "--json"))
    assert shown["hosts"][2]["address"] == "198.18.0.3"
    assert shown["hosts"][2]["bridges"] == ["br-int", "br-phy"]
    assert lab_command("exec", "host2", "hostname") == "host2\n"
    lab_command("exec", "host1", "ping", "-c1", "-W20", "198.18.0.3")
    assert lab_command("down") == "Lab 'lab' is down.\n"
    await_processes(before)
    assert list(lab_command.directory.iterdir()) == []
    assert "No lab is up" in lab_command("show")


def test_a_topology_brings_instances_with_it(lab_command: Command, tmp_path: Path) -> None:
    file = tmp_path / "topology.toml"
    file.write_text(TOPOLOGY)
    lab_command("up", "--topology", str(file))
    lab_command("exec", "host1/vm1", "ping", "-c1", "-W20", "10.0.0.2")
    assert "physnet1" in lab_command("exec", "host2", "ip", "-br", "link")
    assert "vm1, vm2" in lab_command("show")


def test_any_namespace_of_a_host_can_be_entered(lab_command: Command) -> None:
    lab_command("up", "--hosts", "1")
    lab_command("exec", "host1", "ip", "netns", "add", "qrouter-1")
    assert lab_command("exec", "host1/qrouter-1", "ip", "-br", "link").split()[0] == "lo"
    assert "qrouter-1" in lab_command("show")


def test_the_status_and_the_directory_of_a_command_are_kept(
    lab_command: Command, tmp_path: Path
) -> None:
    lab_command("up", "--hosts", "1")
    lab_command("exec", "host1", "sh", "-c", "exit 7", status=7)
    lab_command("exec", "host1", "sh", "-c", "kill -9 $$", status=137)
    lab_command("exec", "host1", "nosuchcommand", status=127)
    done = subprocess.run(
        lab_command.line("exec", "host1", "pwd"),
        env=lab_command.environment, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{tmp_path}\n"


def test_a_command_ends_with_the_one_that_started_it(lab_command: Command) -> None:
    lab_command("up", "--hosts", "1")
    before = processes()
    for number, status in ((signal.SIGKILL, -9), (signal.SIGTERM, 143)):
        process = subprocess.Popen(
            lab_command.line("exec", "host1", "sh", "-c", "echo up; exec sleep 1000"),
            env=lab_command.environment, stdout=subprocess.PIPE,
        )  # fmt: skip
        with process:
            assert process.stdout.readline() == b"up\n"
            process.send_signal(number)
        assert process.returncode == status
        await_processes(before)


def test_a_shell_is_the_users(lab_command: Command) -> None:
    lab_command("up", "--hosts", "1")
    lab_command.environment["SHELL"] = "/bin/hostname"
    assert lab_command("shell", "host1") == "host1\n"


def test_two_labs_are_up_side_by_side(lab_command: Command) -> None:
    lab_command("up", "--hosts", "1", "--name", "red")
    lab_command("up", "--hosts", "1", "--name", "blue")
    lab_command("exec", "--name", "red", "host1", "ip", "netns", "add", "qrouter-1")
    assert lab_command("exec", "--name", "blue", "host1", "ip", "netns") == ""
    assert {lab["name"] for lab in json.loads(lab_command("show", "--json"))} == {"red", "blue"}
    lab_command("down", "--name", "red")
    assert lab_command("exec", "--name", "blue", "host1", "hostname") == "host1\n"
    assert "no lab 'red' is up; up: blue" in lab_command("down", "--name", "red", status=1)


def test_a_name_is_given_once(lab_command: Command) -> None:
    lab_command("up", "--hosts", "1")
    output = lab_command("up", "--hosts", "1", status=1)
    assert "lab 'lab' is up already; take it down (netfw lab down --name lab)" in output
    assert lab_command("exec", "host1", "hostname") == "host1\n"


def test_of_two_at_once_with_one_name_one_is_refused(lab_command: Command) -> None:
    both = [
        subprocess.Popen(
            lab_command.line("up", "--hosts", "1"), env=lab_command.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    output = [process.communicate(timeout=30)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 1]
    assert b"is up already" in b"".join(output)


@pytest.mark.parametrize("depth", ["launcher", "init", "supervisor"])
def test_a_lab_whose_processes_were_killed_is_gone_and_its_name_free(
    lab_command: Command, depth: str
) -> None:
    before = processes()
    lab_command("up", "--hosts", "1")
    pids = [int(str(lab_command.record("lab")["pid"]))]
    while len(pids) < 3:
        children = Path(f"/proc/{pids[-1]}/task/{pids[-1]}/children").read_text()
        pids.append(int(children.split()[0]))
    os.kill(pids[["launcher", "init", "supervisor"].index(depth)], signal.SIGKILL)
    await_processes(before)
    assert "No lab is up" in lab_command("show")
    assert list((lab_command.directory / "netfw-lab").iterdir()) == []
    lab_command("up", "--hosts", "1")


def test_a_pid_that_is_another_process_by_now_is_left_alone(lab_command: Command) -> None:
    (lab_command.directory / "netfw-lab").mkdir(mode=0o700)
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text()
            stale = {"name": "lab", "pid": stranger.pid, "started": 1, "boot": boot}
            file = lab_command.directory / "netfw-lab" / "lab.json"
            file.write_text(json.dumps(stale))
            assert "no lab is up" in lab_command("down", status=1)
            assert not file.exists()
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_unregistered_lab_does_not_stay(lab_command: Command) -> None:
    before = processes()
    process = subprocess.Popen(
        lab_command.line("up", "--hosts", "3"), env=lab_command.environment,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    with process:
        while not (processes() - before - {str(process.pid)}):
            time.sleep(0.001)
        process.kill()
    await_processes(before)
    assert "No lab is up" in lab_command("show")
    lab_command("up", "--hosts", "1")


def test_a_lab_that_is_not_put_on_record_ends_itself(tmp_path: Path) -> None:
    before = processes()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        descriptors = (listening.fileno(), theirs.fileno())
        module = [sys.executable, "-m", "netfw.testing.lab.supervisor", *map(str, descriptors)]
        process = subprocess.Popen(sandbox.command([*module, "{}"]), pass_fds=descriptors)
        theirs.close()
    with process:
        assert json.loads(ours.recv(1000)) == {"error": None}
        ours.close()
        assert process.wait(60) == 1
    await_processes(before)


def test_a_topology_that_is_wrong_is_refused_before_anything_starts(
    lab_command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "topology.toml"
    file.write_text("hosts = 0\ncolour = 'red'\nbrigdes = []\n[[instances]]\nnam = 'vm1'\n")
    output = lab_command("up", "--topology", str(file), status=2)
    assert output.startswith(f"netfw: {file}: hosts: a lab has 1 to 250 hosts; ")
    assert "colour: there is no such setting" in output
    assert "brigdes: there is no such setting, did you mean 'bridges'?" in output
    assert "instances[0].nam: there is no such setting, did you mean 'name'?" in output
    number = lab_command("up", "--hosts", "0", status=2)
    assert number == "netfw: --hosts: a lab has 1 to 250 hosts\n"
    missing = lab_command("up", "--topology", str(tmp_path / "nosuch"), status=2)
    assert "cannot be read" in missing
    both = lab_command("up", "--topology", str(file), "--hosts", "2", status=2)
    assert "either --hosts or --topology" in both


def test_a_lab_that_cannot_come_up_says_why_and_leaves_nothing(
    lab_command: Command, tmp_path: Path
) -> None:
    before = processes()
    file = tmp_path / "topology.toml"
    file.write_text("hosts = 1\n[[instances]]\nname = 'vm1'\nbridge = 'nosuch'\n")
    assert "no bridge named nosuch" in lab_command("up", "--topology", str(file), status=1)
    await_processes(before)
    assert list(lab_command.directory.iterdir()) == []


def test_unknown_hosts_are_reported_with_the_nearest_name(lab_command: Command) -> None:
    lab_command("up", "--hosts", "2")
    assert "did you mean 'host2'?" in lab_command("exec", "hst2", "true", status=1)
    assert "no instance or namespace 'vm1'" in lab_command("exec", "host1/vm1", "true", status=1)
    assert "say which command to run" in lab_command("exec", "host1", status=2)


def test_run_gives_any_command_a_sandbox(lab_command: Command) -> None:
    asked = "from netfw.testing.lab import sandbox; print(sandbox.inside())"
    assert lab_command("run", "--", sys.executable, "-c", asked) == "True\n"
    lab_command("run", "sh", "-c", "exit 5", status=5)


def test_missing_programs_are_reported_before_anything_starts(lab_command: Command) -> None:
    hide = 'mount -t tmpfs none /usr/sbin && exec "$@"'
    done = subprocess.run(
        sandbox.command(["sh", "-c", hide, "sh", *lab_command.line("up")]),
        env=lab_command.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "ovs-vswitchd" in done.stderr
    assert "apt install" in done.stderr


def test_a_lab_survives_askers_that_say_nothing_and_switches_that_are_gone(
    lab_command: Command,
) -> None:
    lab_command("up", "--hosts", "1")
    path = lab_command.directory / "netfw-lab" / "lab.sock"
    for message in (b"", b"nonsense", b"[1]", b"{}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asker:
            asker.connect(str(path))
            if message:
                asker.send(message)
    lab_command("exec", "host1", "sh", "-c", "kill -9 $(cat /run/openvswitch/*.pid)")
    assert lab_command("show").splitlines()[1].split()[-2:] == ["-", "-"]
