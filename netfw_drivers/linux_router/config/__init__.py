"""Renderers of the programs that a router runs, and options of the driver.  Pure."""
