"""Flavors: kinds of routers that administrators offer under names of their own."""
