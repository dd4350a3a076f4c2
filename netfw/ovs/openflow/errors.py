"""Texts for error messages of switches."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

from netfw.errors import BackendError
from netfw.ovs.openflow.messages import OpenFlowMessage

_ERROR = Struct("!HH")
_EXPERIMENTER = Struct("!HHI")


class OpenFlowError(BackendError):
    """The switch answered a request with an error; the message is its reason in words."""

    def __init__(self, why: str, answer: OpenFlowMessage | None = None) -> None:
        super().__init__(why)
        self.answer = answer
        """The error as it arrived, if this is about one message."""


def reason(error: OpenFlowMessage) -> str:
    """Return the reason of *error* as text, with its name in the OpenFlow specification."""
    if len(error.data) < 8 + _ERROR.size:
        return "an error without a reason"
    kind, code = _ERROR.unpack_from(error.data, 8)
    if kind == 0xFFFF:
        if len(error.data) < 8 + _EXPERIMENTER.size:
            return f"extended error {code} without an experimenter"
        _, number, experimenter = _EXPERIMENTER.unpack_from(error.data, 8)
        return f"extended error {number} of {experimenter:#x}"
    return _words(kind, code)


@lru_cache(256)
def _words(kind: int, code: int) -> str:
    from os_ken.ofproto import ofproto_v1_4 as ofp

    what = _plain(ofp.ofp_error_type_to_str(kind), "OFPET_")
    name = ofp.ofp_error_code_to_str(kind, code).partition("(")[0]
    why = name.partition("_")[2].replace("_", " ").lower()
    return f"{what}: {why} ({name})"


def _plain(name: str, prefix: str) -> str:
    return name.partition("(")[0].removeprefix(prefix).replace("_", " ").lower()
