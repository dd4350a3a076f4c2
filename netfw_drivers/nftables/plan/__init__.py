"""Decisions of the nftables firewall.  Pure."""
