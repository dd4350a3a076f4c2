"""Packets that flows send to the controller, and packets that it sends by a port."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from struct import Struct, error
from types import MappingProxyType
from typing import Final, NamedTuple

from netfw.errors import BackendUnavailable
from netfw.flows import Output
from netfw.flows.port_number import CONTROLLER, widen_port
from netfw.ovs.openflow import messages
from netfw.ovs.openflow.encode_action import encode_actions
from netfw.ovs.openflow.messages import OpenFlowMessage, Type
from netfw.ovs.openflow.nicira import NICIRA
from netfw.ovs.openflow.socket_connection import SocketConnection

_EXTENSION: Final = Struct("!II")
_SET_FORMAT, _SET_CONTROLLER_ID, _PACKET_IN2 = 16, 20, 30
_FORMAT_PACKET_IN2: Final = 2
_PROPERTY: Final = Struct("!HH")
_PACKET, _METADATA, _USERDATA = 0, 6, 7
_FIELD: Final = Struct("!HBB")
_OXM_BASIC, _NXM_BASIC, _NXM_NICIRA = 0x8000, 0x0000, 0x0001
_REGISTERS, _CT_STATE = 16, 105
_PACKET_OUT: Final = Struct("!IIH6x")
_WHOLE: Final = 0xFFFF
_NO_BUFFER: Final = 0xFFFFFFFF


class PacketIn(NamedTuple):
    """A packet that a flow sent to the controller."""

    in_port: int
    data: bytes
    userdata: bytes
    """The bytes that the flow adds."""
    registers: Mapping[int, int] = MappingProxyType({})
    """Registers that are not zero."""
    ct_state: int = 0


def request_packets(xid: int, controller_id: int) -> bytes:
    """Return the messages by which a connection receives the packets for *controller_id*.

    Fragments are matched as :func:`~netfw.ovs.openflow.messages.match_first_fragments` says: it is
    a property of the bridge.
    """
    config = Struct("!HH").pack(3, _WHOLE)
    return b"".join(
        (
            _extension(xid, _SET_CONTROLLER_ID, Struct("!6xH").pack(controller_id)),
            _extension(xid, _SET_FORMAT, Struct("!I").pack(_FORMAT_PACKET_IN2)),
            messages.message(Type.SET_CONFIG, xid, config),
        )
    )


def packet_out(xid: int, port: int, data: bytes) -> bytes:
    """Return the message that sends *data* by *port*."""
    actions = encode_actions([Output(port)])
    head = _PACKET_OUT.pack(_NO_BUFFER, widen_port(CONTROLLER), len(actions))
    return messages.message(Type.PACKET_OUT, xid, head + actions + data)


def read_packet_in(message: OpenFlowMessage) -> PacketIn | None:
    """Return the packet in *message*; ``None``: it has none, or its port is not known."""
    data = message.data
    if len(data) < 16 or _EXTENSION.unpack_from(data, 8) != (NICIRA, _PACKET_IN2):
        return None
    try:
        parts = dict(_properties(data))
        fields = dict(_fields(parts.get(_METADATA, b"")))
    except error:
        return None
    in_port = fields.get((_OXM_BASIC, 0), fields.get((_NXM_BASIC, 0)))
    if in_port is None or _PACKET not in parts:
        return None
    registers = {
        number: value
        for (oxm_class, number), value in fields.items()
        if oxm_class == _NXM_NICIRA and number < _REGISTERS
    }
    return PacketIn(
        in_port,
        parts[_PACKET],
        parts.get(_USERDATA, b""),
        registers,
        fields.get((_NXM_NICIRA, _CT_STATE), 0),
    )


class PacketConnection:
    """A connection of its own to the bridge behind *target*, for packets alone.

    It receives the packets that flows send to *controller_id*.  *listener* is called on the
    connection's thread and must not call it back.
    """

    def __init__(
        self,
        target: str,
        controller_id: int,
        listener: Callable[[PacketIn], None],
        *,
        timeout: float = 10.0,
    ) -> None:
        self._controller_id, self._listener = controller_id, listener
        self._connection = SocketConnection(target, timeout=timeout)
        self._connection.on_message(Type.EXPERIMENTER, self._receive)
        self._connection.on_state(self._subscribe)

    def send(self, port: int, data: bytes) -> None:
        """Send *data* by *port*.

        :raises BackendUnavailable: there is no connection.
        """
        self._connection.send(packet_out(self._connection.next_xid(), port, data))

    def close(self) -> None:
        """Close the connection and stop its thread."""
        self._connection.close()

    def _subscribe(self, up: bool) -> None:
        if up:
            xid = self._connection.next_xid()
            with suppress(BackendUnavailable):  # it is lost again, and the next one subscribes
                self._connection.send(request_packets(xid, self._controller_id))

    def _receive(self, message: OpenFlowMessage) -> None:
        packet = read_packet_in(message)
        if packet is not None:
            self._listener(packet)


def _extension(xid: int, subtype: int, body: bytes) -> bytes:
    return messages.message(Type.EXPERIMENTER, xid, _EXTENSION.pack(NICIRA, subtype) + body)


def _properties(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 16
    while at + _PROPERTY.size <= len(data):
        kind, length = _PROPERTY.unpack_from(data, at)
        if length < _PROPERTY.size:
            return
        yield kind, data[at + _PROPERTY.size : at + length]
        at += length + -length % 8


def _fields(fields: bytes) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield class, number and value of each field beside a packet that has no mask."""
    at = 0
    while at + _FIELD.size <= len(fields):
        oxm_class, number, length = _FIELD.unpack_from(fields, at)
        at += _FIELD.size
        if not number & 1:
            yield (oxm_class, number >> 1), int.from_bytes(fields[at : at + length], "big")
        at += length
