"""Limits of a port, and their flows.  Pure."""
