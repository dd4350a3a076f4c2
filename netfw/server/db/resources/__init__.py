"""Rows of resources and queries over them."""
