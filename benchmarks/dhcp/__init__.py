"""The DHCP driver and agent."""
