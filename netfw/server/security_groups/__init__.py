"""Resource handlers of security groups and their rules."""
