"""Packet traces: ``netfw trace`` between two ports, over hosts, on the desired and the live state.

``packet``, ``values``
    the packet, where it enters a host, and what is found
``ofproto_trace``, ``datapath_ports``, ``router_listings``
    parsing the replies of switch and kernel
``trace_host``, ``route_lookup``
    requests to one host, answered on it
``hosts``
    this host, or others that a command reaches
``path``
    following the packet from host to host
``sentences``
    a trace for people
"""
