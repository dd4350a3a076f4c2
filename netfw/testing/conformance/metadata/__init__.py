"""Conformance suite of metadata drivers."""
