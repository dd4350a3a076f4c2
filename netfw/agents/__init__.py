"""Agents: what should be on this host, from a source, through drivers, for ever."""
