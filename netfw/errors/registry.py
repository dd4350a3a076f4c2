"""Registry of the declared errors: all of this package, and those of a resource by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TypeVar, cast

from netfw import errors
from netfw.errors import InUse, NetfwError, NotFound

E = TypeVar("E", type[NotFound], type[InUse])


@cache
def error_classes() -> Mapping[str, type[NetfwError]]:
    """Return every error that a module of this package declares, by the name of its class."""
    modules = [each.name for each in iter_modules(errors.__path__, f"{errors.__name__}.")]
    for name in modules:
        import_module(name)
    declared = {errors.__name__, *modules}
    found = [each for each in _family(NetfwError) if each.__module__ in declared]
    return MappingProxyType({each.__name__: each for each in found})


@cache
def not_found(resource: str) -> type[NotFound]:
    """Return the error for an absent *resource*, named as the API names it.

    Its declaration is a subclass of ``NotFound`` with that ``resource``.  A resource without one,
    such as a vendor's, gets a class of the same form: ``LoadBalancerNotFound``.
    """
    return _of_resource(NotFound, resource)


@cache
def in_use(resource: str) -> type[InUse]:
    """Return the error for a *resource* that something uses, as :func:`not_found` does."""
    return _of_resource(InUse, resource)


def _of_resource(base: E, resource: str) -> E:
    for each in error_classes().values():
        if issubclass(each, base) and vars(each).get("resource") == resource:
            return each
    name = "".join(part.capitalize() for part in resource.split("_")) + base.__name__
    return cast(E, type(name, (base,), {"resource": resource, "__doc__": base.__doc__}))


def _family(base: type[NetfwError]) -> Iterator[type[NetfwError]]:
    yield base
    for each in base.__subclasses__():
        yield from _family(each)
