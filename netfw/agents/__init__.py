"""Agents: converge a host to the desired state of a source, through drivers."""
