"""Ports, their bindings, and trunks as the API writes them."""

from __future__ import annotations

from netfw.model.binding import Binding, VhostUserMode, VifDetails, VnicType
from netfw.model.local_ip import MAX_PER_PORT, LocalIpAssociation, LocalIpMode
from netfw.model.port import AddressPair, DnsAssignment, IpAllocation, Port
from netfw.model.trunk import SegmentationType, SubPort, Trunk, TrunkMembership
from netfw.model.wire.codec import Listed, Nullable
from netfw.model.wire.common import (
    ADMIN_STATE,
    DHCP_OPTION,
    FIXED_IP,
    IDENTITY,
    IDS,
    NAMED,
    QOS_POLICY_ID,
    STATUS,
)
from netfw.model.wire.object_codec import Attribute, Inline, ObjectCodec
from netfw.model.wire.scalars import (
    ADDRESS,
    BOOLEAN,
    DEVICE_NAME,
    DNS_NAME,
    DOCUMENT,
    HOST,
    HOST_OR_EMPTY,
    ID,
    MAC,
    NUMBER,
    PHYSICAL_NETWORK,
    PREFIX_OR_ADDRESS,
    SOCKET_PATH,
    TOKEN,
    VIF_TYPE,
    choice,
)

VIF_DETAILS = ObjectCodec(
    VifDetails,
    (
        Attribute("port_filter", Nullable(BOOLEAN, silent=True)),
        Attribute("ovs_hybrid_plug", Nullable(BOOLEAN, silent=True)),
        Attribute("connectivity", Nullable(TOKEN, silent=True)),
        Attribute("bridge_name", Nullable(DEVICE_NAME, silent=True)),
        Attribute("datapath_type", Nullable(TOKEN, silent=True)),
        Attribute("vhostuser_socket", Nullable(SOCKET_PATH, silent=True)),
        Attribute("vhostuser_mode", Nullable(choice(VhostUserMode), silent=True)),
        Attribute("vhostuser_ovs_plug", Nullable(BOOLEAN, silent=True)),
        Attribute("vlan", Nullable(NUMBER, silent=True)),
        Attribute("physical_network", Nullable(PHYSICAL_NETWORK, silent=True)),
    ),
    rest="other",
)
BINDING = ObjectCodec(
    Binding,
    (
        Attribute("binding:host_id", Nullable(HOST_OR_EMPTY, instead=""), "host"),
        Attribute("binding:hosts", Listed(HOST, frozenset, silent=True), "hosts"),
        Attribute("binding:prepared_hosts", Listed(HOST, frozenset, silent=True), "prepared_hosts"),
        Attribute("binding:vnic_type", choice(VnicType), "vnic_type"),
        Attribute("binding:vif_type", VIF_TYPE, "vif_type"),
        Attribute("binding:vif_details", VIF_DETAILS, "vif_details"),
        Attribute("binding:profile", DOCUMENT, "profile"),
    ),
)
ADDRESS_PAIR = ObjectCodec(
    AddressPair,
    (
        Attribute("ip_address", PREFIX_OR_ADDRESS, "prefix"),
        Attribute("mac_address", Nullable(MAC, silent=True), "mac"),
    ),
)
DNS_ASSIGNMENT = ObjectCodec(
    DnsAssignment,
    (
        Attribute("ip_address", ADDRESS, "address"),
        Attribute("hostname", DNS_NAME),
        Attribute("fqdn", DNS_NAME),
    ),
)
TRUNK_MEMBERSHIP = ObjectCodec(
    TrunkMembership,
    (
        Attribute("trunk_id", ID),
        Attribute("parent_id", Nullable(ID, silent=True)),
        Attribute("segmentation_id", Nullable(NUMBER, silent=True)),
    ),
)
LOCAL_IP_ASSOCIATION = ObjectCodec(
    LocalIpAssociation,
    (
        Attribute("local_ip_id", ID),
        Attribute("local_ip_address", ADDRESS, "address"),
        Attribute("local_mac_address", MAC, "mac"),
        Attribute("fixed_ip", ADDRESS),
        Attribute("ip_mode", choice(LocalIpMode), "mode"),
    ),
)
PORT = ObjectCodec(
    Port,
    (
        IDENTITY,
        *NAMED,
        Attribute("network_id", ID),
        Attribute("mac_address", MAC, "mac"),
        Attribute("fixed_ips", Listed(FIXED_IP)),
        Attribute("allowed_address_pairs", Listed(ADDRESS_PAIR)),
        Attribute("extra_dhcp_opts", Listed(DHCP_OPTION), "dhcp_options"),
        Attribute("security_groups", IDS),
        Attribute("port_security_enabled", BOOLEAN, "port_security"),
        Inline("binding", BINDING),
        Attribute("device_id", TOKEN),
        Attribute("device_owner", TOKEN),
        ADMIN_STATE,
        Attribute("status", STATUS),
        Attribute("dns_name", DNS_NAME),
        Attribute("dns_domain", DNS_NAME),
        Attribute("dns_assignment", Listed(DNS_ASSIGNMENT)),
        QOS_POLICY_ID,
        Attribute("qos_network_policy_id", Nullable(ID)),
        Attribute("ip_allocation", choice(IpAllocation)),
        Attribute("propagate_uplink_status", BOOLEAN),
        Attribute("trunk", Nullable(TRUNK_MEMBERSHIP, silent=True)),
        Attribute("local_ips", Listed(LOCAL_IP_ASSOCIATION, limit=MAX_PER_PORT, silent=True)),
    ),
)
SUB_PORT = ObjectCodec(
    SubPort,
    (
        Attribute("port_id", ID),
        Attribute("segmentation_type", choice(SegmentationType)),
        Attribute("segmentation_id", NUMBER),
    ),
)
TRUNK = ObjectCodec(
    Trunk,
    (
        IDENTITY,
        *NAMED,
        Attribute("port_id", ID),
        Attribute("sub_ports", Listed(SUB_PORT)),
        ADMIN_STATE,
        Attribute("status", STATUS),
    ),
)
