"""The journal of changes, its topics and its head."""
