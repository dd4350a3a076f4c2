"""Pure: chains, sets and conntrack entries to change."""
