"""Packet logs: the decisions of the firewall, one line for each packet."""
