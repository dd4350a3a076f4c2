"""Conformance suites of the drivers that the server loads."""
