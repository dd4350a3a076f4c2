"""Connections that switches make to us, and connections with TLS, on real switches."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import evolve

from netfw import flows as of
from netfw.errors import BackendError, BackendUnavailable, ConfigError
from netfw.ovs.openflow import FlowChanges, FlowMirror, OpenFlow, encode_flows, group_of, messages
from netfw.ovs.openflow.messages import Type
from netfw.ovs.openflow.tls import SwitchTls
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw.testing.lab.services.certificates import PrivateAuthority
from netfw.testing.lab.wait import wait_until
from tests.lab.ovs.openflow.openflow_peer import error_of

PORT = 16653
FLOWS = [
    of.Flow(table=1, priority=1, match=of.register(0, number), actions=(of.output(1),))
    for number in range(3000)
]
Connect = Callable[..., OpenFlow]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> PrivateAuthority:
    return PrivateAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> PrivateAuthority:
    return PrivateAuthority(tmp_path_factory.mktemp("stranger"), "another authority")


def files(signed_by: PrivateAuthority, trusts: PrivateAuthority, name: str) -> SwitchTls:
    made = signed_by.vouch_for(name)
    return SwitchTls(
        private_key=str(made.key),
        certificate=str(made.certificate),
        ca_cert=str(trusts.certificate),
    )


def set_ssl(ovs: PrivateOvs, tls: SwitchTls) -> None:
    ovs.vsctl("set-ssl", tls.private_key, tls.certificate, tls.ca_cert)


@pytest.fixture
def connect() -> Iterator[Connect]:
    opened: list[OpenFlow] = []

    def open_client(target: str, **options: object) -> OpenFlow:
        opened.append(OpenFlow(target, **options))
        return opened[-1]

    yield open_client
    for client in opened:
        client.close()


def commits_and_reads(client: OpenFlow) -> None:
    """Check that bundles, dumps and monitors pass in both directions at once."""
    mirror = FlowMirror(client)
    mirror.wait_current(30)
    mirror.converge({1: group_of(*FLOWS)})
    assert len(client.flows()) == len(FLOWS)


@pytest.mark.spec("DRV-49")
def test_a_switch_connects_to_a_client_that_listens(
    ovs: PrivateOvs, bridge: str, connect: Connect
) -> None:
    client = connect(f"ptcp:{PORT}:127.0.0.1")
    with pytest.raises(BackendUnavailable, match="no switch has connected yet"):
        client.wait_connected(0.1)
    ovs.vsctl("set-controller", "br0", f"tcp:127.0.0.1:{PORT}")
    client.wait_connected(30)
    commits_and_reads(client)


@pytest.mark.spec("DRV-49")
def test_a_switch_that_comes_back_is_accepted_again(
    ovs: PrivateOvs, bridge: str, connect: Connect
) -> None:
    client = connect(f"ptcp:{PORT}")
    states: list[bool] = []
    client.on_state(states.append)
    ovs.vsctl("set-controller", "br0", f"tcp:127.0.0.1:{PORT}")
    client.wait_connected(30)
    ovs.stop_switch()
    wait_until(lambda: states == [True, False])
    ovs.start_switch()
    wait_until(lambda: states == [True, False, True])
    client.barrier()


@pytest.mark.spec("DRV-49")
def test_tls_by_either_side(
    ovs: PrivateOvs, bridge: str, connect: Connect, authority: PrivateAuthority
) -> None:
    set_ssl(ovs, files(authority, authority, "switch"))
    ours = files(authority, authority, "controller")
    listening = connect(f"pssl:{PORT}:127.0.0.1", tls=ours)
    ovs.vsctl("set-controller", "br0", f"ssl:127.0.0.1:{PORT}", f"pssl:{PORT + 1}:127.0.0.1")
    listening.wait_connected(30)
    commits_and_reads(listening)
    connecting = connect(f"ssl:127.0.0.1:{PORT + 1}", tls=ours)
    connecting.wait_connected(30)
    assert connecting.datapath_id() == listening.datapath_id()
    assert len(connecting.flows()) == len(FLOWS)


@pytest.fixture(params=["listens", "connects"])
def by_tls(ovs: PrivateOvs, bridge: str, connect: Connect, request) -> Connect:
    """Make a client that listens for the switch, and one that connects to it."""

    def make(ours: SwitchTls) -> OpenFlow:
        if request.param == "listens":
            client = connect(f"pssl:{PORT}:127.0.0.1", tls=ours)
            ovs.vsctl("set-controller", "br0", f"ssl:127.0.0.1:{PORT}")
            return client
        ovs.vsctl("set-controller", "br0", f"pssl:{PORT}:127.0.0.1")
        return connect(f"ssl:127.0.0.1:{PORT}", tls=ours)

    return make


@pytest.mark.spec("DRV-49")
def test_a_switch_with_the_certificate_of_another_authority_is_refused(
    ovs: PrivateOvs, by_tls: Connect, authority: PrivateAuthority, stranger: PrivateAuthority
) -> None:
    set_ssl(ovs, files(stranger, authority, "false-switch"))
    client = by_tls(files(authority, authority, "controller"))
    wait_until(lambda: "certificate of the switch is not accepted: unable" in error_of(client))


@pytest.mark.spec("DRV-49")
def test_a_switch_that_does_not_trust_us_is_named(
    ovs: PrivateOvs, by_tls: Connect, authority: PrivateAuthority, stranger: PrivateAuthority
) -> None:
    set_ssl(ovs, files(authority, authority, "switch"))
    client = by_tls(files(stranger, authority, "false-controller"))
    wait_until(lambda: "the switch does not accept our certificate" in error_of(client))


def test_a_switch_without_tls_gets_a_clear_answer(
    ovs: PrivateOvs, bridge: str, connect: Connect, authority: PrivateAuthority
) -> None:
    client = connect(f"pssl:{PORT}:127.0.0.1", tls=files(authority, authority, "controller"))
    ovs.vsctl("set-controller", "br0", f"tcp:127.0.0.1:{PORT}")
    wait_until(lambda: "see that both ends use TLS" in error_of(client))


def test_a_peer_that_says_nothing_does_not_keep_the_switch_out(
    ovs: PrivateOvs, bridge: str, connect: Connect, authority: PrivateAuthority
) -> None:
    set_ssl(ovs, files(authority, authority, "switch"))
    ours = files(authority, authority, "controller")
    client = connect(f"pssl:{PORT}:127.0.0.1", tls=ours, probe=0.5)
    wait_until(lambda: reaches(PORT))
    with socket.create_connection(("127.0.0.1", PORT)):
        ovs.vsctl("set-controller", "br0", f"ssl:127.0.0.1:{PORT}")
        client.wait_connected(60)


HELLO = messages.message(Type.HELLO, 1)
XID = 77


@pytest.mark.parametrize(
    ("greeting", "answer"),
    [
        (messages.message(Type.ERROR, 1), b""),
        (messages.message(Type.ERROR, 1, b"\xff\xff\0\1"), b""),
        (HELLO, messages.message(Type.ERROR, XID)),
        (HELLO, messages.message(Type.ERROR, XID, b"\xff\xff\0\1\0")),
        (HELLO, messages.message(Type.MULTIPART_REPLY, XID)),
        (HELLO, messages.message(Type.MULTIPART_REPLY, XID, b"\0\1\0")),
    ],
)
def test_a_peer_that_sends_truncated_messages_does_not_keep_the_next_one_out(
    connect: Connect, greeting: bytes, answer: bytes
) -> None:
    client = connect(f"ptcp:{PORT}:127.0.0.1")
    wait_until(lambda: reaches(PORT))
    with socket.create_connection(("127.0.0.1", PORT)) as peer:
        peer.sendall(greeting)
        if answer:
            client.wait_connected(30)
            future = client.connection.ask(XID, messages.message(Type.MULTIPART_REQUEST, XID))
            peer.sendall(answer)
            with pytest.raises(BackendError):
                future.result(30)
    wait_until(lambda: not client.connection.connected)
    with socket.create_connection(("127.0.0.1", PORT)) as peer:
        peer.sendall(HELLO)
        client.wait_connected(30)


def reaches(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_closing_ends_the_wait_for_a_switch_and_frees_the_port(connect: Connect) -> None:
    for _ in range(2):
        client = connect(f"ptcp:{PORT}:127.0.0.1")
        wait_until(lambda: reaches(PORT))
        start = time.monotonic()
        client.close()
        assert time.monotonic() - start < 30
        assert not reaches(PORT)
    assert not [thread for thread in threading.enumerate() if "openflow" in thread.name]


def test_a_port_in_use_is_named_and_tried_again(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", PORT)):
        client = connect(f"ptcp:{PORT}:127.0.0.1")
        wait_until(lambda: "Address already in use" in error_of(client))
    wait_until(lambda: reaches(PORT))


def test_files_of_tls_that_cannot_be_used_are_named_at_once(
    tmp_path: Path, authority: PrivateAuthority, stranger: PrivateAuthority
) -> None:
    good = files(authority, authority, "controller")
    text = tmp_path / "text"
    text.write_text("not a certificate")
    other = files(stranger, stranger, "other")
    for wrong, why in [
        (None, "needs a private key, a certificate and a CA"),
        (evolve(good, ca_cert="/nowhere"), "ca_cert of an OpenFlow connection: .*/nowhere"),
        (evolve(good, certificate=str(text)), f"{text} or .* is not PEM"),
        (evolve(good, private_key=other.private_key), "do not belong together"),
    ]:
        with pytest.raises(ConfigError, match=why):
            OpenFlow(f"ssl:127.0.0.1:{PORT}", tls=wrong)
    assert not [thread for thread in threading.enumerate() if "openflow" in thread.name]


def test_flows_are_committed_while_dumps_arrive_by_tls(
    ovs: PrivateOvs, bridge: str, connect: Connect, authority: PrivateAuthority
) -> None:
    # One thread reads and others write: nothing is lost or mixed up.
    set_ssl(ovs, files(authority, authority, "switch"))
    ovs.vsctl("set-controller", "br0", f"pssl:{PORT}:127.0.0.1")
    client = connect(f"ssl:127.0.0.1:{PORT}", tls=files(authority, authority, "controller"))
    client.wait_connected(30)
    changes = FlowChanges(tuple(encode_flows(FLOWS).values()))
    client.commit(changes)
    failures: list[BaseException] = []

    def work(run: Callable[[], object]) -> None:
        try:
            for _ in range(5):
                run()
        except BaseException as exc:  # noqa: BLE001 - it is shown below
            failures.append(exc)

    threads = [
        threading.Thread(target=work, args=[run])
        for run in (lambda: client.commit(changes), client.flows, client.barrier)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(client.flows()) == len(FLOWS)
