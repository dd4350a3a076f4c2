"""Subnet pools, address scopes, and topologies that are allocated from them on request."""
