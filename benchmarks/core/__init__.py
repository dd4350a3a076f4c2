"""Imports, flows, OVSDB, netlink and filters."""
