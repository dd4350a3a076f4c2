"""Corrections of os-ken's codecs of OpenFlow 1.4, made when this package is imported.

os-ken 4.2.2 loses what Open vSwitch sends in three places.  Each correction changes only what was
an exception or unreadable bytes before, by os-ken's own registries where it has them:

1. ``NXAction.serialize`` states a length rounded up to eight bytes and writes no padding.  Within
   ``ct()``, what follows a ``nat()`` is then read at the wrong place.
2. ``NXActionController2`` raises on the property that names a meter, and the whole dump is lost.
3. Reports of flow monitors are refused, but for the first kind that their class was registered for;
   and those of removed flows, which Open vSwitch sends with their instructions.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from os_ken.ofproto import ofproto_v1_4 as ofp
from os_ken.ofproto import ofproto_v1_4_parser as parser

_PROPERTY = Struct("!HH")
_METER_PROPERTY = Struct("!HHI")
_METER = 5
_REPORTS = {
    parser.OFPFlowUpdateFull: (ofp.OFPFME_ADDED, ofp.OFPFME_REMOVED, ofp.OFPFME_MODIFIED),
    parser.OFPFlowUpdatePaused: (ofp.OFPFME_RESUMED,),
}


class NXActionController2(parser.NXActionController2):  # type: ignore[misc]  # no types
    """os-ken's action with one more attribute, ``meter_id``."""

    def __init__(self, *args: Any, meter_id: int | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        if meter_id is not None:
            self.meter_id = meter_id

    @classmethod
    def parser(cls, buf: bytes) -> Any:
        head, rest, meter_id = bytes(buf[:6]), b"", None
        position = len(head)
        while position < len(buf):
            kind, length = _PROPERTY.unpack_from(buf, position)
            after = position + max(length + -length % 8, 8)
            if kind == _METER:
                meter_id = _METER_PROPERTY.unpack_from(buf, position)[2]
            else:
                rest += bytes(buf[position:after])
            position = after
        action = super().parser(head + rest)
        if meter_id is not None:
            action.meter_id = meter_id
        return action

    def serialize_body(self) -> bytearray:
        body: bytearray = super().serialize_body()
        meter_id = getattr(self, "meter_id", None)
        if meter_id is not None:
            body += _METER_PROPERTY.pack(_METER, _METER_PROPERTY.size, meter_id)
        return body


def patch_codecs() -> None:
    """Correct os-ken's codecs in the whole process; call it once."""
    _pad_actions()
    _read_meters()
    _read_reports()


def _pad_actions() -> None:
    serialize = parser.NXAction.serialize

    def serialize_padded(self: Any, buf: bytearray, offset: int) -> None:
        serialize(self, buf, offset)
        buf += bytes(max(0, offset + self.len - len(buf)))

    parser.NXAction.serialize = serialize_padded


def _read_meters() -> None:
    NXActionController2.__module__ = parser.__name__  # os-ken finds classes by it
    parser.NXActionController2 = NXActionController2
    parser.NXAction.register(NXActionController2)


def _read_reports() -> None:
    """Register a class for each kind of report: os-ken keeps one kind in a class."""
    for known, events in _REPORTS.items():
        for event in events:
            own = type(
                known.__name__, (known,), {"__module__": parser.__name__, "__init__": _init_report}
            )
            register = parser.OFPFlowUpdateHeader.register_flow_update_event
            register(event, known.cls_flow_update_length)(own)


def _init_report(
    self: Any, length: int | None = None, event: int | None = None, *rest: Any
) -> None:
    """Leave the kind to the class; told that a flow is removed, os-ken allows no instructions."""
    super(type(self), self).__init__(length, None, *rest)
