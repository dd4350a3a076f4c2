"""Drivers that do nothing, honestly: for hosts and tests without a dataplane."""
