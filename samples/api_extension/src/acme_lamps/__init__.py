"""Lamps: an example of a vendor's resource."""
