"""Metering labels and their rules: which traffic of routers is to be counted."""
