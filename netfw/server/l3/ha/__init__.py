"""Highly available routers: HA networks, roles of hosts."""
