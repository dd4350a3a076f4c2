"""The firewall drivers."""
