"""Drivers that keep their promises in memory, for tests of what is built on drivers."""
