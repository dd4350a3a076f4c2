"""netfw's flows through the connection of an os-ken application, which os-ken itself runs."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from queue import Queue
from threading import Thread
from types import SimpleNamespace

import pytest
from os_ken.base.app_manager import OSKenApp
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER
from os_ken.ofproto import ofproto_v1_3, ofproto_v1_4

from netfw.errors import BackendUnavailable
from netfw.ovs.openflow import messages
from netfw.ovs.openflow.messages import Type
from netfw.ovs.osken import DatapathConnection
from netfw.testing.lab.openvswitch import PrivateOvs

PORT = 16653


class Application:
    """The process of the application; the lines that it prints arrive in a queue."""

    def __init__(self) -> None:
        argv = [sys.executable, "-m", "tests.lab.ovs.openflow.osken_application", str(PORT)]
        self.process = subprocess.Popen(
            argv, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._lines: Queue[str] = Queue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.strip())

    def close(self) -> None:
        self.process.kill()
        self._reader.join()
        with self.process:
            pass

    def tell(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def line(self, start: str) -> str:
        """Return the next line that begins with *start*."""
        while not (line := self._lines.get(timeout=60)).startswith(start):
            pass
        return line


@pytest.fixture
def application(ovs: PrivateOvs, bridge: str) -> Iterator[Application]:
    found = Application()
    ovs.vsctl("set", "Bridge", "br0", "protocols=OpenFlow10,OpenFlow13,OpenFlow14")
    ovs.vsctl("set-controller", "br0", f"tcp:127.0.0.1:{PORT}")
    ovs.vsctl("set", "Controller", "br0", "max_backoff=1000")
    yield found
    found.close()


def shown(ovs: PrivateOvs, bridge: str) -> list[str]:
    text = ovs.ofctl("-O", "OpenFlow14", "--no-stats", "dump-flows", bridge, "table=5")
    return [line for line in text.splitlines() if "cookie=0x77" in line]


@pytest.mark.spec("DRV-49")
def test_flows_meters_and_drift_pass_through_os_kens_datapath(
    ovs: PrivateOvs, bridge: str, application: Application
) -> None:
    assert application.line("ready").startswith("ready")
    application.tell("500")
    assert application.line("has").split()[:2] == ["has", "500"]
    assert len(shown(ovs, bridge)) == 500
    assert "meter=3 pktps" in ovs.ofctl("-O", "OpenFlow14", "dump-meters", bridge)
    ovs.ofctl("-O", "OpenFlow14", "--strict", "del-flows", bridge,
              "table=5,priority=9,tcp,tp_dst=1")  # fmt: skip
    assert application.line("drift") == "drift flows"
    application.tell("500")
    assert application.line("has").split()[:2] == ["has", "500"]
    application.tell("3")
    assert application.line("has").split()[:2] == ["has", "3"]
    assert len(shown(ovs, bridge)) == 3
    application.tell("refused")
    assert "OFPMMFC_INVALID_METER" in application.line("refused")
    application.tell("own")
    assert application.line("own") == "own Open vSwitch"


@pytest.mark.spec("DRV-49")
def test_a_lost_switch_is_an_error_and_its_next_connection_another_client(
    ovs: PrivateOvs, bridge: str, application: Application
) -> None:
    application.line("ready")
    application.tell("5")
    application.line("has")
    ovs.stop_switch()
    application.tell("6")
    assert "os-ken:" in application.line("unavailable")
    ovs.start_switch()
    application.line("ready")
    application.tell("7")
    assert application.line("has").split()[:2] == ["has", "7"]


@pytest.mark.parametrize(
    ("version", "phase", "why"),
    [
        (ofproto_v1_3, MAIN_DISPATCHER, "does not speak OpenFlow 1.4: set OFP_VERSIONS"),
        (ofproto_v1_4, CONFIG_DISPATCHER, "phase config: wait for MAIN_DISPATCHER"),
    ],
)
def test_a_datapath_that_cannot_carry_flows_is_refused(version, phase: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        DatapathConnection(SimpleNamespace(ofproto=version, state=phase))


def test_closing_fails_requests_that_wait_and_leaves_the_datapath() -> None:
    application = OSKenApp()
    with socket.socket() as unused:
        datapath = SimpleNamespace(
            ofproto=ofproto_v1_4,
            state=MAIN_DISPATCHER,
            address="switch",
            xid=5,
            socket=unused,
            ofp_brick=application,
            send=lambda data: True,
        )
        connection = DatapathConnection(datapath, timeout=60)
        future = connection.ask(7, messages.message(Type.BARRIER_REQUEST, 7))
        assert not future.done()
        for _ in range(2):
            connection.close()
        with pytest.raises(BackendUnavailable, match="the datapath is closed"):
            future.result(0)
        with pytest.raises(BackendUnavailable, match="the datapath is closed"):
            connection.send(b"")
        assert not any(application.event_handlers.values())
