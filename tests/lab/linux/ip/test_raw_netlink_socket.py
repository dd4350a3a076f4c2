from __future__ import annotations

import errno
import select
import socket

import pytest

from netfw.linux import netns
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddLinuxBridge, SetMtu
from netfw.linux.netlink.messages import NLM_F_ACK, NLM_F_DUMP
from netfw.linux.netlink.raw_socket import NetlinkOverrun, RawNetlinkSocket

_NEW_LINK, _GET_LINK = 16, 18
_LINKS = 1
_IFINFOMSG = bytes(16)


def test_replies_are_those_of_the_request(blue: NetlinkClient) -> None:
    def read() -> list[int]:
        with RawNetlinkSocket(socket.NETLINK_ROUTE, timeout=10) as netlink:
            abandoned = netlink.request(_GET_LINK, _IFINFOMSG, NLM_F_DUMP)
            next(netlink.replies({abandoned}))
            sequence = netlink.request(_GET_LINK, _IFINFOMSG, NLM_F_DUMP)
            kinds = []
            for message in netlink.replies({sequence}):
                assert message.sequence == sequence
                if message.is_final:
                    return kinds
                kinds.append(message.kind)
            return kinds

    kinds = netns.run_in("blue", read)
    assert kinds == [_NEW_LINK] * len(blue.links())


def test_error_is_the_kernel_s_with_its_text(blue: NetlinkClient) -> None:
    with RawNetlinkSocket(socket.NETLINK_ROUTE, strict=True, timeout=10) as netlink:
        sequence = netlink.request(_GET_LINK, _IFINFOMSG, NLM_F_ACK)
        reply = next(netlink.replies({sequence}))
    assert reply.is_final
    assert reply.error_number in (errno.EINVAL, errno.ENODEV)


def test_overrun_is_an_exception_and_the_socket_goes_on(blue: NetlinkClient) -> None:
    def listen() -> RawNetlinkSocket:
        return RawNetlinkSocket(
            socket.NETLINK_ROUTE, groups=[_LINKS], receive_buffer=4096, timeout=0
        )

    with netns.run_in("blue", listen) as netlink:
        with pytest.raises(BlockingIOError):
            netlink.receive()
        blue.apply([AddLinuxBridge("br1")])
        blue.apply([SetMtu("br1", mtu) for mtu in range(1300, 1400)])
        with pytest.raises(NetlinkOverrun, match="messages were lost") as overrun:
            _receive_all(netlink)
        assert overrun.value.errno == errno.ENOBUFS
        _receive_all(netlink)
        blue.apply([SetMtu("br1", 1500)])
        assert select.select([netlink], [], [], 10)[0]
        assert netlink.receive()


def _receive_all(netlink: RawNetlinkSocket) -> None:
    try:
        while True:
            netlink.receive()
    except BlockingIOError:
        return


def test_socket_without_an_answer_times_out() -> None:
    netlink = RawNetlinkSocket(socket.NETLINK_ROUTE, timeout=0.05)
    with netlink, pytest.raises(TimeoutError):
        netlink.receive()


def test_refused_set_up_leaves_no_socket() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        RawNetlinkSocket(socket.NETLINK_ROUTE, groups=[1 << 20])
