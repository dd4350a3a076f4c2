"""Tools to prove a driver: the lab, the conformance suites, fakes."""
