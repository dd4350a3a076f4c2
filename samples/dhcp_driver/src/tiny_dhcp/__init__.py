"""DHCP for netfw with a server of one page."""
