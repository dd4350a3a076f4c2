"""Commands to a real ``ovs-vswitchd``, and errors that say why there is no reply."""

import os
import socket
from pathlib import Path

import pytest

from netfw.errors import BackendUnavailable
from netfw.ovs.control_socket import ControlSocket
from netfw.testing.lab.openvswitch import PrivateOvs


def test_output_of_a_command_is_returned(ovs: PrivateOvs) -> None:
    control = ControlSocket(ovs.directory)
    assert control.command("version") == ovs.appctl("version")
    assert control.command("revalidator/purge") == ""


def test_a_restarted_switch_is_found_again(ovs: PrivateOvs) -> None:
    control = ControlSocket(ovs.directory)
    control.command("version")
    ovs.stop_switch()
    with pytest.raises(BackendUnavailable, match=r"version: .*No such file"):
        control.command("version")
    ovs.start_switch()
    assert "Open vSwitch" in control.command("version")


def test_a_refused_command_is_an_error_with_the_reply(ovs: PrivateOvs) -> None:
    with pytest.raises(BackendUnavailable, match=r'"nonsense" is not a valid command'):
        ControlSocket(ovs.directory).command("nonsense")


def test_a_switch_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "ovs-vswitchd.pid").write_text(f"{os.getpid()}\n")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / f"ovs-vswitchd.{os.getpid()}.ctl"))
        silent.listen()
        with pytest.raises(BackendUnavailable, match="version: timed out"):
            ControlSocket(tmp_path, timeout=0.05).command("version")
