from __future__ import annotations

import errno
import struct

from hypothesis import given
from hypothesis import strategies as st

from netfw.linux.netlink.messages import (
    NLM_F_ACK,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    NetlinkMessage,
    parse_attributes,
    parse_messages,
    render_attribute,
    render_message,
)

_CAPPED, _TLVS = 0x100, 0x200


@given(st.lists(st.tuples(st.integers(16, 0xFFFF), st.integers(0, 0xFFFF), st.binary(max_size=50))))
def test_messages_are_parsed_as_they_were_rendered(bodies: list[tuple[int, int, bytes]]) -> None:
    data = b""
    for sequence, (kind, flags, body) in enumerate(bodies):
        message = render_message(kind, flags, sequence, body)
        data += message + b"\0" * (-len(message) % 4)
    assert [(kind, flags, bytes(body)) for kind, flags, _, body in parse_messages(data)] == [
        (kind, flags | NLM_F_REQUEST, body) for kind, flags, body in bodies
    ]
    assert [message.sequence for message in parse_messages(data)] == list(range(len(bodies)))


@given(st.dictionaries(st.integers(0, 0x3FFF), st.binary(max_size=50)))
def test_attributes_are_parsed_as_they_were_rendered(attributes: dict[int, bytes]) -> None:
    data = b"".join(render_attribute(kind | 0x8000, value) for kind, value in attributes.items())
    assert {kind: bytes(value) for kind, value in parse_attributes(memoryview(data)).items()} == (
        attributes
    )


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_without_an_error(data: bytes) -> None:
    for message in parse_messages(data):
        assert isinstance(message.error_number, int)
        parse_attributes(message.body)


def test_acknowledgement_reports_success() -> None:
    ack = NetlinkMessage(NLMSG_ERROR, _CAPPED, 1, memoryview(struct.pack("=i", 0) + bytes(16)))
    assert ack.is_final
    assert (ack.error_number, ack.error_text) == (0, "")
    done = NetlinkMessage(NLMSG_DONE, 0, 1, memoryview(b""))
    assert done.is_final
    assert done.error_number == 0


def test_error_has_the_text_after_the_request_that_it_repeats() -> None:
    text = render_attribute(1, b"Device is busy\0")
    number = struct.pack("=i", -errno.EBUSY)
    request = render_message(16, NLM_F_ACK, 1, b"12345678")
    for flags, echo in ((_TLVS | _CAPPED, request[:16]), (_TLVS, request)):
        error = NetlinkMessage(NLMSG_ERROR, flags, 1, memoryview(number + echo + text))
        assert (error.error_number, error.error_text) == (errno.EBUSY, "Device is busy")
    silent = NetlinkMessage(NLMSG_ERROR, 0, 1, memoryview(number + request))
    assert (silent.error_number, silent.error_text) == (errno.EBUSY, "")
    end = NetlinkMessage(NLMSG_DONE, _TLVS, 1, memoryview(number + text))
    assert (end.error_number, end.error_text) == (errno.EBUSY, "Device is busy")


def test_messages_without_sought_bytes_are_skipped_but_not_the_final_one() -> None:
    bodies = [(20, b"..address"), (20, b"another.."), (20, b"thirdaddr"), (NLMSG_DONE, b"\0" * 4)]
    data = b""
    for kind, body in bodies:
        message = render_message(kind, 0, 1, body)
        data += message + b"\0" * (-len(message) % 4)

    def kept(*containing: bytes) -> list[bytes]:
        return [bytes(message.body) for message in parse_messages(data, containing)]

    assert kept() == [body for _, body in bodies]
    assert kept(b"address") == [b"..address", b"\0" * 4]
    assert kept(b"third", b"another") == [b"another..", b"thirdaddr", b"\0" * 4]
    assert kept(b"nowhere") == [b"\0" * 4]
