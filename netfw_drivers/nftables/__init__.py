"""Firewall drivers on nftables, for ports of Linux bridges."""
