"""Firewall groups, policies and rules, and the firewall of each router."""
