"""Decisions of the packet log.  Pure."""
