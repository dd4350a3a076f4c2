"""Decisions of the extension for local IPs.  Pure."""
