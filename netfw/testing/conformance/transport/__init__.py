"""Conformance suite of transports."""
