"""DHCP by dnsmasq: one process per network, one file per port."""
