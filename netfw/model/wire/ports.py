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
from netfw.model.wire.object_codec import Inline, NamedField, ObjectCodec
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
        NamedField("port_filter", Nullable(BOOLEAN, silent=True)),
        NamedField("ovs_hybrid_plug", Nullable(BOOLEAN, silent=True)),
        NamedField("connectivity", Nullable(TOKEN, silent=True)),
        NamedField("bridge_name", Nullable(DEVICE_NAME, silent=True)),
        NamedField("datapath_type", Nullable(TOKEN, silent=True)),
        NamedField("vhostuser_socket", Nullable(SOCKET_PATH, silent=True)),
        NamedField("vhostuser_mode", Nullable(choice(VhostUserMode), silent=True)),
        NamedField("vhostuser_ovs_plug", Nullable(BOOLEAN, silent=True)),
        NamedField("vlan", Nullable(NUMBER, silent=True)),
        NamedField("physical_network", Nullable(PHYSICAL_NETWORK, silent=True)),
    ),
    rest="other",
)
BINDING = ObjectCodec(
    Binding,
    (
        NamedField("binding:host_id", Nullable(HOST_OR_EMPTY, instead=""), "host"),
        NamedField("binding:hosts", Listed(HOST, frozenset, silent=True), "hosts"),
        NamedField(
            "binding:prepared_hosts", Listed(HOST, frozenset, silent=True), "prepared_hosts"
        ),
        NamedField("binding:vnic_type", choice(VnicType), "vnic_type"),
        NamedField("binding:vif_type", VIF_TYPE, "vif_type"),
        NamedField("binding:vif_details", VIF_DETAILS, "vif_details"),
        NamedField("binding:profile", DOCUMENT, "profile"),
    ),
)
ADDRESS_PAIR = ObjectCodec(
    AddressPair,
    (
        NamedField("ip_address", PREFIX_OR_ADDRESS, "prefix"),
        NamedField("mac_address", Nullable(MAC, silent=True), "mac"),
    ),
)
DNS_ASSIGNMENT = ObjectCodec(
    DnsAssignment,
    (
        NamedField("ip_address", ADDRESS, "address"),
        NamedField("hostname", DNS_NAME),
        NamedField("fqdn", DNS_NAME),
    ),
)
TRUNK_MEMBERSHIP = ObjectCodec(
    TrunkMembership,
    (
        NamedField("trunk_id", ID),
        NamedField("parent_id", Nullable(ID, silent=True)),
        NamedField("segmentation_id", Nullable(NUMBER, silent=True)),
    ),
)
LOCAL_IP_ASSOCIATION = ObjectCodec(
    LocalIpAssociation,
    (
        NamedField("local_ip_id", ID),
        NamedField("local_ip_address", ADDRESS, "address"),
        NamedField("local_mac_address", MAC, "mac"),
        NamedField("fixed_ip", ADDRESS),
        NamedField("ip_mode", choice(LocalIpMode), "mode"),
    ),
)
PORT = ObjectCodec(
    Port,
    (
        IDENTITY,
        *NAMED,
        NamedField("network_id", ID),
        NamedField("mac_address", MAC, "mac"),
        NamedField("fixed_ips", Listed(FIXED_IP)),
        NamedField("allowed_address_pairs", Listed(ADDRESS_PAIR)),
        NamedField("extra_dhcp_opts", Listed(DHCP_OPTION), "dhcp_options"),
        NamedField("security_groups", IDS),
        NamedField("port_security_enabled", BOOLEAN, "port_security"),
        Inline("binding", BINDING),
        NamedField("device_id", TOKEN),
        NamedField("device_owner", TOKEN),
        ADMIN_STATE,
        NamedField("status", STATUS),
        NamedField("dns_name", DNS_NAME),
        NamedField("dns_domain", DNS_NAME),
        NamedField("dns_assignment", Listed(DNS_ASSIGNMENT)),
        QOS_POLICY_ID,
        NamedField("qos_network_policy_id", Nullable(ID)),
        NamedField("ip_allocation", choice(IpAllocation)),
        NamedField("propagate_uplink_status", BOOLEAN),
        NamedField("trunk", Nullable(TRUNK_MEMBERSHIP, silent=True)),
        NamedField("local_ips", Listed(LOCAL_IP_ASSOCIATION, limit=MAX_PER_PORT, silent=True)),
    ),
)
SUB_PORT = ObjectCodec(
    SubPort,
    (
        NamedField("port_id", ID),
        NamedField("segmentation_type", choice(SegmentationType)),
        NamedField("segmentation_id", NUMBER),
    ),
)
TRUNK = ObjectCodec(
    Trunk,
    (
        IDENTITY,
        *NAMED,
        NamedField("port_id", ID),
        NamedField("sub_ports", Listed(SUB_PORT)),
        ADMIN_STATE,
        NamedField("status", STATUS),
    ),
)
