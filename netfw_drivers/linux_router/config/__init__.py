"""Renderers of the programs that a router runs.  Pure."""
