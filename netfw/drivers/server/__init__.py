"""Contracts of drivers and plugins that run in the server, and their values."""
