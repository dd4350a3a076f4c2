"""Pure: what to change on the bridges."""
