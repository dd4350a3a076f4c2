"""The reply to a request, computed from the request and from what its flow carries.  Pure."""

from __future__ import annotations

from netfw_drivers.ovs.dhcp.plan.dhcp4 import answer4
from netfw_drivers.ovs.dhcp.plan.dhcp6 import answer6, answer_solicitation
from netfw_drivers.ovs.dhcp.plan.leases import (
    Leases4,
    Leases6,
    PortAdvertisement,
    decode_answers,
)


def make_reply(frame: bytes, userdata: bytes) -> bytes | None:
    """Return the frame that answers *frame*; ``None``: it gets no answer."""
    match decode_answers(userdata):
        case Leases4() as leases:
            return answer4(frame, leases)
        case Leases6() as leases:
            return answer6(frame, leases)
        case PortAdvertisement() as advertisement:
            return answer_solicitation(frame, advertisement)
        case None:
            return None
