"""Tests of network segment ranges."""
