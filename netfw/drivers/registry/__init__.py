"""Find, check and load drivers by entry point."""
