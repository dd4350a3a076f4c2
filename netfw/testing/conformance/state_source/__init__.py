"""Conformance suite of state sources."""
