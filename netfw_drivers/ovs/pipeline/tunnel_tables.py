"""The way of a packet through ``br-tun``, to be read from top to bottom.  Pure.

``br-tun`` accepts what leaves for other hosts, finds the tunnel, and replaces the local VLAN by the
tunnel id, which is the same on all hosts.  A MAC address of several hosts has several tunnels.
Frames for it go into all of them, or to the active host only while that sends.  Which one is active
is learned from its announcements (gratuitous ARP, unsolicited neighbour advertisement), or from any
frame while none is known.
"""

from __future__ import annotations

from netfw import flows as of
from netfw.model.segment import NetworkType

LEARNS = of.RegisterField(0, 0, 0, "1: the tunnel of the sender is learned")
KIND = of.RegisterField(0, 1, 3, "type of tunnel; equal numbers of two types are two networks")
KNOWN = of.RegisterField(0, 4, 4, "1: the sender is learned already")
VIA = of.RegisterField(1, 0, 15, "number of the tunnel by which the receiver last sent")
ACTIVE = of.RegisterField(2, 0, 15, "number of the tunnel to the active host; 0: not known")
CONFIRMED = of.RegisterField(2, 16, 31, "the same if that host sent lately, else 0")
SENT = 0xFFFF
"""In place of a tunnel's number: it is sent already."""
KINDS = {NetworkType.GRE: 1, NetworkType.VXLAN: 2, NetworkType.GENEVE: 3}

TUNNEL_INPUT = of.Table(
    number=0,
    name="classify",
    asks="Does it come from this host, or from which type of tunnel?",
    leads_to=("dvr-process", "patch-to-tunnel", "from-gre", "from-vxlan", "from-geneve"),
    writes=(LEARNS, KIND),
)
TUNNEL_DVR = of.Table(
    number=1,
    name="dvr-process",
    asks="(distributed routing) Is it from or for a router?",
    leads_to=("patch-to-tunnel",),
    miss=(of.goto(2),),
)
PATCH_TO_TUNNEL = of.Table(
    number=2,
    name="patch-to-tunnel",
    asks="Is it for one receiver, a request that can be answered here, or for all?",
    leads_to=("active", "confirm-active", "unicast", "learnt", "responder", "flood"),
    writes=(KIND,),
)
FROM_GRE, FROM_VXLAN, FROM_GENEVE = (
    of.Table(
        number=number,
        name=f"from-{kind}",
        asks=f"Which network has this {kind} tunnel id?",
        leads_to=("dvr-no-learn", "shared-source", "learn"),
    )
    for number, kind in (
        (3, NetworkType.GRE),
        (4, NetworkType.VXLAN),
        (6, NetworkType.GENEVE),
    )
)
FROM_TUNNEL = {
    NetworkType.GRE: FROM_GRE,
    NetworkType.VXLAN: FROM_VXLAN,
    NetworkType.GENEVE: FROM_GENEVE,
}
NO_LEARN = of.Table(
    number=9,
    name="dvr-no-learn",
    asks="(distributed routing) Is the sender a router?",
    leads_to=("learn",),
    miss=(of.goto(10),),
)
SHARED_SOURCE = of.Table(
    number=11,
    name="shared-source",
    asks="Is the sender a MAC address of several hosts, and did it use the tunnel of one of them?",
    leads_to=("known-active", "learn-active"),
)
KNOWN_ACTIVE = of.Table(
    number=12,
    name="known-active",
    asks="Which host with the sender's MAC address is active, by a learned flow?",
    writes=(ACTIVE,),
)
LEARN_ACTIVE = of.Table(
    number=13,
    name="learn-active",
    asks="Is it an announcement, or is no host known as the active one?",
    learns_into=("known-active", "active", "confirm-active"),
)
LEARN = of.Table(
    number=10,
    name="learn",
    asks="Is the sender to be learned?  Then it goes to this host's ports.",
    leads_to=("known-sender", "learn-sender"),
)
KNOWN_SENDER = of.Table(
    number=14,
    name="known-sender",
    asks="Is the sender learned already?",
    writes=(KNOWN,),
)
LEARN_SENDER = of.Table(
    number=15,
    name="learn-sender",
    asks="Which network has the sender?  It is learned if known, or if few others of it are.",
    learns_into=("known-sender", "unicast"),
)
RESPONDER = of.Table(
    number=21,
    name="responder",
    asks="Which MAC address has the address of the ARP request or neighbour solicitation?  It is "
    "sent to that one, too.",
    leads_to=("neighbour", "unicast", "flood"),
    miss=(of.goto(22),),
)
NEIGHBOUR = of.Table(
    number=23, name="neighbour", asks="Is the neighbour advertisement complete?  It goes back."
)
BY_ACTIVE = of.Table(
    number=17,
    name="active",
    asks="Which host with the receiver's MAC address is active, by a learned flow?",
    writes=(ACTIVE,),
)
CONFIRM_ACTIVE = of.Table(
    number=18,
    name="confirm-active",
    asks="Has that host sent in the last seconds, by a learned flow?",
    writes=(CONFIRMED,),
)
UNICAST = of.Table(
    number=20,
    name="unicast",
    asks="Behind which tunnel is the receiver, by configuration or by a learned flow?",
    writes=(VIA,),
)
BY_LEARNING = of.Table(
    number=19,
    name="learnt",
    asks="Is the tunnel still one to learn from?  A learned flow has no effect without it.",
    leads_to=("flood",),
    miss=(of.goto(22),),
)
FLOOD = of.Table(number=22, name="flood", asks="Which hosts have ports of this network?")

TUNNELS = of.Pipeline(
    "br-tun",
    (
        TUNNEL_INPUT, TUNNEL_DVR, PATCH_TO_TUNNEL, FROM_GRE, FROM_VXLAN, FROM_GENEVE, NO_LEARN,
        SHARED_SOURCE, KNOWN_ACTIVE, LEARN_ACTIVE, LEARN, KNOWN_SENDER, LEARN_SENDER,
        RESPONDER, NEIGHBOUR, BY_ACTIVE, CONFIRM_ACTIVE, UNICAST, BY_LEARNING, FLOOD,
    ),
)  # fmt: skip
