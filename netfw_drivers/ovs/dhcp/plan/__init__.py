"""Leases, replies and flows of distributed DHCP.  Pure."""
