"""Resource handlers of routers and floating IPs."""
