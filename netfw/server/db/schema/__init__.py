"""Tables and columns."""
