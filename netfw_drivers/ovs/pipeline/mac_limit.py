"""The flows that limit the MAC addresses of a port without anti-spoofing.  Pure.

Such a port may send from any MAC address.  Whatever learns MAC addresses has to remember them: the
other hosts of a mesh, and the switches of a physical network.  Where a frame came from another
host, its port is unknown; so the host of the port limits them.  The port's own address has a place
of its own.  An address is forgotten after the other hosts have forgotten it, so that they never
remember more of one port than the limit.
"""

from __future__ import annotations

from collections.abc import Iterator

from netfw import flows as of
from netfw.drivers.values.pipeline_grant import PipelineHook
from netfw.model.values.address import Mac
from netfw_drivers.ovs.pipeline.br_tun import LEARNT_FOR
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.pipeline.tables import (
    COOKIE,
    KNOWN_MAC,
    LEARN_MAC,
    LEARNT,
    MAC_KNOWN,
    MAC_LIMIT,
    PORT,
)

FORGOTTEN_AFTER = LEARNT_FOR + 10
"""Seconds after its last frame that a MAC address counts."""
CHECK = of.goto(KNOWN_MAC), of.goto(LEARN_MAC)
"""Actions of a port whose MAC addresses are limited, in place of the jump to the next table."""


def base_flows(layout: ExtensionLayout) -> Iterator[of.Flow]:
    """Yield the flows that all ports share."""
    onward = of.goto(layout.entry(PipelineHook.FROM_PORT))
    yield LEARN_MAC.flow(MAC_KNOWN.is_(1), of.goto(MAC_LIMIT), priority=2, cookie=COOKIE)
    yield MAC_LIMIT.flow(MAC_KNOWN.is_(1), onward, priority=1, cookie=COOKIE)


def port_flows(number: int, mac: Mac, limit: int) -> Iterator[of.Flow]:
    """Yield the flows that limit the MAC addresses of port *number*, besides *mac*, to *limit*."""
    here = PORT.is_(number)
    yield KNOWN_MAC.flow(here & of.eth_src(mac), of.load(MAC_KNOWN, 1), priority=2, cookie=COOKIE)
    learn = of.learn(
        KNOWN_MAC.number,
        of.learn_match(PORT),
        of.learn_match(of.FIELD["eth_src"]),
        of.learn_load(MAC_KNOWN, 1),
        priority=1,
        cookie=LEARNT | number,
        idle_timeout=FORGOTTEN_AFTER,
        limit=limit,
        result=MAC_KNOWN,
    )
    yield LEARN_MAC.flow(here, learn, of.goto(MAC_LIMIT), priority=1, cookie=COOKIE)
