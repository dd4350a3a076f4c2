"""Values that several contracts share: keys, events, reports, grants, states."""
