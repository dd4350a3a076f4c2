"""Conformance suite of firewall drivers."""
