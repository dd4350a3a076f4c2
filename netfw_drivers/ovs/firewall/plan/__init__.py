"""Pure: the flows of security groups, and what to change."""
