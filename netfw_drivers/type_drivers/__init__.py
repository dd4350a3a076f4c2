"""Type drivers of the reference switch, one per segment type."""
