"""Conformance suite of DHCP drivers."""
