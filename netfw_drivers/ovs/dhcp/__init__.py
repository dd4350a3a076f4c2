"""Distributed DHCP: instances are answered by the agent of their own host, through the switch."""
