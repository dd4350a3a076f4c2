"""Conformance suite of switch drivers."""
