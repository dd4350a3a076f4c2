"""The way of a packet through the bridges, to be read from top to bottom.  Pure.

Table numbers and registers are those of Neutron's OVS agent.  Tables that are not used yet have
their place already: packets pass through them, or never get there.

``br-int`` joins the ports of this host.  A packet enters it only by a flow of its port: a port that
was never wired has none in table 0.  It leaves only by a flow too: inside, packets carry no tag, a
register holds their network, and each is sent to the ports that it is for.  A tag or other column
that the owner of a device writes into the database does not change that.

Filtered ports are the firewall's: what they send passes tables 71 and 72, what they receive 81 and
82, and packets that no flow there allows are dropped.  Without a firewall all of them are dropped.
The switch follows 4096 jumps of one packet and then drops it.  A packet for all ports of a network
takes four jumps for each filtered port that may receive it, so that a host has room for a thousand
filtered ports in one network.

A MAC address of several hosts (an interface of a highly available router) has no one place: a frame
of this host for it goes to the local port and on to the other hosts, and one from another host to
the local port only.  Standby routers receive these copies and have no address that would answer:
no flow changes when another host becomes active.  Reports of multicast groups, which their kernels
send without an address, are dropped, so that no switch learns the MAC from a standby.

An interface of a distributed router has the same MAC address on every host, and that one never
leaves a host: table 62 replaces it by the MAC of this host, and tables 1 and 2 of the receiving
host restore it.  Requests of a router for a neighbour leave as probes from the host's MAC, so that
no instance learns that; answers to them come back through tables 3 and 4.

A sub-port of a trunk is a pair of patch ports, both on ``br-int``.  What an instance sends under
its tag leaves table 0 for the pair, without the tag, and enters table 0 again from the sub-port,
with a number of its own.  What is sent to the sub-port comes out of the other end, and goes to the
device of the parent under the tag.  A filtered sub-port takes five jumps.

``br-tun`` is in `tunnel_tables`.

A physical bridge replaces the local VLAN by the one of the physical network.
"""

from __future__ import annotations

from netfw import flows as of

MAGIC = 0x6E66 << 48
"""First of a cookie: a flow of netfw."""
SWITCH_SPACE = MAGIC | 0x01 << 40
"""Flows of the switch driver and of extensions, under `SPACE_MASK`; a firewall has another."""
SPACE_MASK = 0xFFFFFF << 40
OWNER_MASK = 0xFFFFFFFF << 32
"""Bits of a cookie that identify the owner; the other half is the owner's own."""
FIREWALL_SPACE = MAGIC | 0x02 << 40
"""Flows of the firewall in the switch, under `SPACE_MASK`."""
COOKIE = SWITCH_SPACE
"""Flows of the switch driver itself."""
FILTERED_PORT, GUARDED_PORT, SHARED_MAC = 2, 4, 8
"""Bits in the cookie of the flow that lets a port take part: what it is, for a later run."""
LEARNT = MAGIC | 0x03 << 40
"""Flows made by ``learn``, under `SPACE_MASK`.  They expire: no update removes them."""

PORT = of.RegisterField(5, 0, 15, "number of the port that a packet left; 0: it came from outside")
FILTERED = of.RegisterField(5, 16, 16, "1: the firewall filters what the port sends")
ROUTED = of.RegisterField(5, 17, 17, "1: a distributed router sent it, here or on another host")
TO_ROUTER = of.RegisterField(5, 18, 18, "1: it may answer a request of a distributed router")
MAC_KNOWN = of.RegisterField(5, 19, 19, "1: the sender's MAC is one of those of its port")
NETWORK = of.RegisterField(6, 0, 15, "local VLAN of the network")
POLICY = of.RegisterField(7, 0, 15, "number of the set of groups that a packet is filtered by")
DIRECTION = of.RegisterField(7, 16, 16, "0: a port sends it; 1: a port receives it")
TARGET = of.RegisterField(8, 0, 15, "number of the port that a packet is for")
MEMBER_CHUNK = of.RegisterField(8, 16, 31, "which ports of a network are next")
CHUNK_BITS = 6
"""Ports with the same number but for these bits get broadcast from one flow: so one port more
costs the same on a network of a thousand."""
FREE_REGISTERS = tuple(range(9, 16))
"""Registers of ``br-int`` that are given to extensions."""
EXTENSION_TABLES = tuple(range(100, 200))
"""Tables of ``br-int`` that are given to extensions."""

_FROM = (PORT, FILTERED, ROUTED, TO_ROUTER, NETWORK)
_JUDGED = (POLICY, DIRECTION)

LOCAL_SWITCHING = of.Table(
    number=0,
    name="local-switching",
    asks="Where does it come from: a wired port, a physical network, tunnels, or none of these?",
    leads_to=(
        "dvr-to-tunnel", "dvr-to-physical", "arp-dvr-tunnel", "arp-dvr-physical", "spoof-arp",
        "spoof-mac", "known-mac", "learn-mac", "local-egress", "rate-packets",
    ),
    back_to=("local-switching",),
    writes=_FROM,
)  # fmt: skip
DVR_TUNNEL = of.Table(
    number=1,
    name="dvr-to-tunnel",
    asks="(distributed routing) Which router of another host sent it, by a tunnel?",
    leads_to=("rate-packets",),
    miss=(of.goto(58),),
)
DVR_PHYSICAL = of.Table(
    number=2,
    name="dvr-to-physical",
    asks="(distributed routing) Which router of another host sent it, by a physical network?",
    leads_to=("rate-packets",),
    miss=(of.goto(58),),
)
ARP_DVR_TUNNEL = of.Table(
    number=3,
    name="arp-dvr-tunnel",
    asks="(distributed routing) Which router of this host is answered, by a tunnel?",
    leads_to=("rate-packets", "local-output"),
    miss=(of.goto(58),),
)
ARP_DVR_PHYSICAL = of.Table(
    number=4,
    name="arp-dvr-physical",
    asks="(distributed routing) Which router of this host is answered, by a physical network?",
    leads_to=("rate-packets", "local-output"),
    miss=(of.goto(58),),
)
CANARY = of.Table(
    number=23, name="canary", asks="Nothing: its flow is gone when the switch has lost its flows."
)
SPOOF_ARP = of.Table(
    number=24,
    name="spoof-arp",
    asks="May this port claim this address, or probe for it, in ARP and neighbour discovery?",
    leads_to=("spoof-mac", "dropped"),
    miss=(of.goto(93),),
)
SPOOF_MAC = of.Table(
    number=25,
    name="spoof-mac",
    asks="May this port send from this MAC address?",
    leads_to=("local-egress", "dropped"),
    miss=(of.goto(93),),
)
KNOWN_MAC = of.Table(
    number=26,
    name="known-mac",
    asks="(ports without anti-spoofing) Has the port sent from this MAC address lately?",
    writes=(MAC_KNOWN,),
)
LEARN_MAC = of.Table(
    number=27,
    name="learn-mac",
    asks="(ports without anti-spoofing) May the port send from one MAC address more?",
    leads_to=("mac-limit",),
    learns_into=("known-mac",),
    writes=(MAC_KNOWN,),
    miss=(of.goto(28),),
)
MAC_LIMIT = of.Table(
    number=28,
    name="mac-limit",
    asks="(ports without anti-spoofing) Was this one MAC address too many?",
    leads_to=("local-egress", "dropped"),
    miss=(of.goto(93),),
)
LOCAL_EGRESS = of.Table(
    number=30,
    name="local-egress",
    asks="(local services) Is it for a service on this host?",
    leads_to=("local-ip", "rate-packets"),
    miss=(of.goto(58),),
)
LOCAL_IP = of.Table(
    number=31,
    name="local-ip",
    asks="(local services) Which one?",
    leads_to=("rate-packets",),
    miss=(of.goto(58),),
)
RATE_PACKETS = of.Table(
    number=58,
    name="rate-packets",
    asks="(QoS) Are these too many packets?",
    leads_to=("rate-bandwidth",),
    miss=(of.goto(59),),
)
RATE_BANDWIDTH = of.Table(
    number=59,
    name="rate-bandwidth",
    asks="(QoS) Are these too many bits?",
    leads_to=("transient",),
    miss=(of.goto(60),),
)
TRANSIENT = of.Table(
    number=60,
    name="transient",
    asks="Is it to be filtered, or sent on?",
    leads_to=("base-egress", "accepted-egress", "accepted"),
    miss=(of.goto(91),),
)
BASE_EGRESS = of.Table(
    number=71,
    name="base-egress",
    asks="(firewall) Are the sender's addresses its own, and may any port send this?",
    leads_to=("rules-egress", "accepted-egress", "dropped"),
    writes=_JUDGED,
    miss=(of.goto(93),),
)
RULES_EGRESS = of.Table(
    number=72,
    name="rules-egress",
    asks="(firewall) Does a rule let a port open this connection?",
    leads_to=("accept-or-ingress", "rules-ingress", "accepted-egress", "dropped"),
    back_to=("base-egress",),
    miss=(of.goto(93),),
)
ACCEPT_OR_INGRESS = of.Table(
    number=73,
    name="accept-or-ingress",
    asks="(firewall) Is the connection committed now, or does a receiver on this host decide?",
    leads_to=("accepted-egress", "accepted-ingress"),
)
ACCEPTED_EGRESS = of.Table(
    number=91,
    name="accepted-egress",
    asks="(hook) A port may send this.",
    leads_to=("accepted",),
    miss=(of.goto(94),),
)
ACCEPTED = of.Table(
    number=94,
    name="accepted",
    asks="It may go on, whatever its sender; (firewall) has it many receivers?",
    leads_to=("local-output",),
    back_to=("accepted",),
    miss=(of.goto(61),),
)
LOCAL_OUTPUT = of.Table(
    number=61,
    name="local-output",
    asks="Which port of this host is it for; or is it for all of them?",
    leads_to=("members", "base-ingress", "deliver", "egress"),
    writes=(TARGET, MEMBER_CHUNK),
    miss=(of.goto(62),),
)
MEMBERS = of.Table(
    number=63,
    name="members",
    asks="Which of the network's ports are in this chunk?",
    leads_to=("base-ingress", "deliver"),
    writes=(TARGET,),
)
BASE_INGRESS = of.Table(
    number=81,
    name="base-ingress",
    asks="(firewall) May every port receive this?",
    leads_to=("rules-ingress", "accepted-ingress", "dropped"),
    writes=_JUDGED,
    miss=(of.goto(93),),
)
RULES_INGRESS = of.Table(
    number=82,
    name="rules-ingress",
    asks="(firewall) Does a rule let others open this connection to a port?",
    leads_to=("accepted-ingress", "dropped"),
    back_to=("base-ingress", "base-egress", "rules-egress", "accept-or-ingress"),
    miss=(of.goto(93),),
)
ACCEPTED_INGRESS = of.Table(
    number=92,
    name="accepted-ingress",
    asks="(hook) A filtered port may receive this.",
    leads_to=("deliver",),
    miss=(of.OutputTo(TARGET.bits),),
)
DELIVER = of.Table(
    number=64,
    name="deliver",
    asks="(extensions) It leaves by the port in the register.",
    miss=(of.OutputTo(TARGET.bits),),
)
EGRESS = of.Table(
    number=62,
    name="egress",
    asks="Which bridge leads to the network's other hosts, if it came from this one; and does a "
    "distributed router send it?  Then the MAC of this host replaces the router's.",
)
DROPPED = of.Table(number=93, name="dropped", asks="(hook) This was refused.")

INTEGRATION = of.Pipeline(
    "br-int",
    (
        LOCAL_SWITCHING, DVR_TUNNEL, DVR_PHYSICAL, ARP_DVR_TUNNEL, ARP_DVR_PHYSICAL, CANARY,
        SPOOF_ARP, SPOOF_MAC, KNOWN_MAC, LEARN_MAC, MAC_LIMIT,
        LOCAL_EGRESS, LOCAL_IP, RATE_PACKETS, RATE_BANDWIDTH, TRANSIENT,
        BASE_EGRESS, RULES_EGRESS, ACCEPT_OR_INGRESS, ACCEPTED_EGRESS, ACCEPTED, LOCAL_OUTPUT,
        MEMBERS, BASE_INGRESS, RULES_INGRESS, ACCEPTED_INGRESS, DELIVER, EGRESS, DROPPED,
    ),
)  # fmt: skip

PHYSICAL_INPUT = of.Table(
    number=0,
    name="translate",
    asks="Does it come from this host's ports, with a local VLAN that the network has a tag for?",
    leads_to=("dvr-process", "dvr-translate", "dvr-not-learn"),
    miss=(of.normal(),),
)
PHYSICAL_DVR = of.Table(
    number=1,
    name="dvr-process",
    asks="(distributed routing) Is it from or for a router?",
    leads_to=("dvr-translate",),
)
PHYSICAL_TRANSLATE = of.Table(
    number=2,
    name="dvr-translate",
    asks="(distributed routing) Which VLAN has the physical network for it?",
)
PHYSICAL_NO_LEARN = of.Table(
    number=3,
    name="dvr-not-learn",
    asks="(distributed routing) Is the sender a router?",
)

PHYSICAL = of.Pipeline(
    "physical bridge",
    (PHYSICAL_INPUT, PHYSICAL_DVR, PHYSICAL_TRANSLATE, PHYSICAL_NO_LEARN),
)
