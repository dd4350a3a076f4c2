"""Lamps, as an example of a vendor's resource."""
