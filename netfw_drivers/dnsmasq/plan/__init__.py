"""Pure: what to change for a network's dnsmasq."""
