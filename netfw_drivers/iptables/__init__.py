"""Firewall drivers on iptables, for ports of Linux bridges."""
