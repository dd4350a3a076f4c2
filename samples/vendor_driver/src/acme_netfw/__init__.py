"""Acme switches for netfw."""
