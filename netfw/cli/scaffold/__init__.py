"""Packages for new drivers, written from templates."""
