"""Refusals of requests on address groups; clients map the names of these classes."""

from __future__ import annotations

from netfw.errors import Conflict, InvalidInput, NotFound


class AddressGroupInUse(Conflict):
    """Rules of security groups name the address group."""


class AddressesAlreadyExist(InvalidInput):
    """The address group has some of the addresses that are added."""


class AddressesNotFound(NotFound):
    """The address group lacks some of the addresses that are removed."""
