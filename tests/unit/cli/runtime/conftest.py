"""Fixtures of the tests of programs with drivers of vendors."""

from tests.unit.drivers.registry.conftest import forget_modules, site

__all__ = ["forget_modules", "site"]
