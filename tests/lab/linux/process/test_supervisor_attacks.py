"""Attacks on the supervisor, which runs as root: forged records, marks of other users, directories
that others may change."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netfw.errors import BackendBroken
from netfw.linux.process import ProcessKey, Program, Supervisor
from netfw.linux.process.identity import MARK
from netfw.testing.lab.wait import wait_until
from tests.lab.linux.process.process_observer import state

pytestmark = pytest.mark.spec("DRV-45")

KEY, OTHER = ProcessKey("sleep", "one"), ProcessKey("sleep", "two")
SLEEP = Program(argv=("sleep", "1002"))
ATTACKER = 65534
ONE_USER = Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]
needs_users = pytest.mark.skipif(ONE_USER, reason="this user namespace has one user")
IGNORE_TERM = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen]:
    """Yield a process that no supervisor started."""
    with subprocess.Popen(["sleep", "1003"]) as process:
        yield process
        process.kill()


def change_record(path: Path, **values: object) -> None:
    """Change a record as a user who may write to its directory could."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_command_in_a_record_is_not_executed(make_supervisor, tmp_path):
    # Records of former releases have a stop command, which is ignored.
    first = make_supervisor()
    process = first.start(KEY, SLEEP)
    first.close()
    change_record(tmp_path / "pids/sleep/one.json", stop=["touch", str(tmp_path / "executed")])
    second = make_supervisor()
    assert second.pid(KEY) == process.pid, "the process of a former release is not taken over"
    second.stop(KEY)
    assert state(process.pid) is None
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("name", ["shadow", "pids/sleep/two.json", "pids/sleep/../../shadow"])
def test_files_named_in_a_record_are_removed_only_if_they_belong_to_its_key(
    make_supervisor, tmp_path, name
):
    first = make_supervisor()
    first.start(KEY, SLEEP)
    first.start(OTHER, SLEEP)
    first.close()
    (tmp_path / "shadow").touch()
    change_record(tmp_path / "pids/sleep/one.json", own_pid_files=[f"{tmp_path}/{name}"])
    make_supervisor().stop(KEY)
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("has_mark", [False, True])
def test_process_in_a_forged_record_is_left_alone(make_supervisor, bystander, tmp_path, has_mark):
    # The record matches the process in all that an attacker can read of it.
    first = make_supervisor()
    own = first.start(KEY, SLEEP).pid
    first.close()
    path = tmp_path / "pids/sleep/one.json"
    identity = json.loads(path.read_text())["identity"]
    started = int(Path(f"/proc/{bystander.pid}/stat").read_text().rpartition(")")[2].split()[19])
    forged = identity | {"pid": bystander.pid, "started": started, "argv": ["sleep", "1003"]}
    change_record(path, identity=forged | {"mark": identity["mark"] if has_mark else ""})
    second = make_supervisor()
    assert second.pid(KEY) is None
    second.stop(KEY)
    assert bystander.poll() is None
    assert state(own) is None, "it is found by its mark"


@needs_users
def test_marks_of_other_users_are_ignored(make_supervisor, tmp_path):
    # A user who copies the mark of a process into the environment of other processes could
    # otherwise delay an agent by the time that each takes to end.
    first = make_supervisor()
    process = first.start(KEY, SLEEP)
    mark = json.loads((tmp_path / "pids/sleep/one.json").read_text())["identity"]["mark"]
    first.close()
    with forged_mark(mark) as forged:
        second = make_supervisor()
        assert second.present() == {KEY}
        second.stop(KEY)
        assert state(process.pid) is None
        assert forged.poll() is None, "the supervisor waited for a process that is not its own"
        third = make_supervisor()
        assert third.running(KEY) is None
        assert not third.start(KEY, SLEEP).adopted
        assert forged.poll() is None


@contextmanager
def forged_mark(mark: str) -> Iterator[subprocess.Popen]:
    """Run a process of another user, with a mark, that ignores SIGTERM."""
    with subprocess.Popen(
        [sys.executable, "-c", IGNORE_TERM],
        env={MARK: mark},
        user=ATTACKER,
        group=ATTACKER,
        extra_groups=[],
        cwd="/",
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


@needs_users
def test_orphan_that_gave_up_its_privileges_in_a_namespace_is_ours(make_supervisor, served):
    # Only root can have put it there.
    program = Program(argv=("sleep", "1002"), namespace=served, user="nobody")
    first = make_supervisor()
    process = first.start(KEY, program)
    first.close()
    first.pid_path(KEY).with_suffix(".json").unlink()
    second = make_supervisor()
    assert second.start(KEY, program).pid == process.pid


def open_to_group(directory: Path) -> None:
    os.chown(directory, 0, ATTACKER)
    directory.chmod(0o775)


def owned_by_another(directory: Path) -> None:
    os.chown(directory, ATTACKER, ATTACKER)


def open_to_all(directory: Path) -> None:
    directory.chmod(0o777)


def below_another(directory: Path) -> None:
    os.chown(directory.parent, ATTACKER, ATTACKER)


def sticky(directory: Path) -> None:
    directory.chmod(0o1777)


def open_by_acl(directory: Path) -> None:
    """Let another user write by an access control list; its mode shows that as the group's."""
    owner, user, group, mask, other = 1, 2, 4, 16, 32
    entries = ((owner, 7, -1), (user, 7, ATTACKER), (group, 5, -1), (mask, 7, -1), (other, 5, -1))
    content = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *each) for each in entries)
    os.setxattr(directory, "system.posix_acl_access", content)
    assert directory.stat().st_mode & 0o777 == 0o775


@needs_users
@pytest.mark.parametrize(
    "expose",
    [owned_by_another, open_to_group, open_to_all, open_by_acl, sticky, below_another],
)
def test_directory_that_others_may_change_is_refused(
    make_supervisor: Callable[[], Supervisor], tmp_path: Path, expose: Callable[[Path], None]
) -> None:
    first = make_supervisor()
    process = first.start(KEY, SLEEP)
    first.close()
    directory = tmp_path / "pids"
    expose(directory)
    second = make_supervisor()
    with pytest.raises(BackendBroken, match="others could change"):
        second.present()
    for use in (second.stop, second.running, lambda key: second.start(key, SLEEP)):
        with pytest.raises(BackendBroken, match="others could change"):
            use(KEY)
    os.chown(directory.parent, 0, 0)
    os.chown(directory, 0, 0)
    directory.chmod(0o755)
    assert second.start(KEY, SLEEP).pid == process.pid, "nothing was lost"


@needs_users
def test_directory_below_a_sticky_one_is_accepted(make_supervisor, tmp_path):
    tmp_path.chmod(0o1777)
    supervisor = make_supervisor()
    supervisor.start(KEY, SLEEP)
    wait_until(lambda: supervisor.pid(KEY) is not None)
