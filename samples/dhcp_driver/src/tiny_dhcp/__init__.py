"""DHCP for netfw by a server of one page."""
