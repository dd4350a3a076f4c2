"""Floating IPs and port forwardings: handlers, hosts, inside ports."""
