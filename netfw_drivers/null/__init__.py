"""Drivers without effect, for hosts and tests without a dataplane."""
