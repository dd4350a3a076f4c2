"""Firewall driver: security groups as flows of br-int."""
