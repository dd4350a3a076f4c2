"""The suite of `RouterDriver`."""
