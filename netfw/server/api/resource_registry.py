"""Registry of the resources and extensions of one server, from all declarations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve, frozen

from netfw.drivers.server.api_extension import ApiExtension, ExtensionInfo
from netfw.drivers.server.attribute import Attribute
from netfw.errors import ConfigError, nearest
from netfw.server.api import vendor_extensions
from netfw.server.api.extension_aliases import served_aliases
from netfw.server.api.resources import RESOURCES, quota_resource
from netfw.server.api.schema.resource_schema import ApiResource

Extending = Mapping[str, Mapping[str, Sequence[Attribute]]]
"""Attributes of extension drivers, by the name of the driver, then of the resource."""


@frozen(kw_only=True)
class ResourceRegistry:
    """The served resources and extensions."""

    resources: tuple[ApiResource, ...]
    extensions: tuple[ExtensionInfo, ...]

    def resource(self, name: str) -> ApiResource:
        """Return the resource of that name, which must exist."""
        return next(each for each in self.resources if each.name == name)


def build(
    kept: Iterable[str], *, extending: Extending | None = None, api: Sequence[ApiExtension] = ()
) -> ResourceRegistry:
    """Build the registry of a server whose plugins store the resources *kept*.

    A resource that no plugin stores is not served, nor one that depends on it; except for a
    vendor's resource, which the server stores itself.

    :raises ConfigError: two declarations collide, naming both; or an extension lacks another one.
    """
    names = frozenset(kept)
    served = [_restricted(each, names) for each in RESOURCES if _related(each) <= names]
    own = _extended(served, extending or {})
    theirs = [each for extension in api for each in vendor_extensions.resources(extension)]
    resources = [*own, *theirs]
    if "quota" in names:
        counted = dict.fromkeys(each.quota for each in resources if each.quota is not None)
        resources.append(quota_resource(counted))
    _refuse_collisions(resources)
    _refuse_orphans(resources)
    extensions = (*served_aliases(resources), *(each.info() for each in api))
    _refuse_alias_twice(extensions)
    _refuse_lacking(api, {each.alias for each in extensions})
    return ResourceRegistry(resources=tuple(resources), extensions=extensions)


def _restricted(resource: ApiResource, names: frozenset[str]) -> ApiResource:
    """Return *resource* without attributes that need a resource which is not among *names*."""
    served = tuple(each for each in resource.attributes if each.needs in ("", *names))
    return evolve(resource, attributes=served)


def _related(resource: ApiResource) -> set[str]:
    """Return the resource and those that it depends on."""
    return {each for each in (resource.name, resource.parent, resource.shows_as) if each}


def _extended(resources: Sequence[ApiResource], extending: Extending) -> list[ApiResource]:
    """Return *resources* with the attributes that extension drivers add to them."""
    by_name = {each.name: each for each in resources}
    source: dict[tuple[str, str], str] = {}
    for driver, added in extending.items():
        for name, attributes in added.items():
            for declared in attributes:
                resource = by_name.get(name)
                if resource is None:
                    raise ConfigError(f"extension driver {driver!r} extends {name}, which is not")
                if resource.attribute(declared.name) is not None:
                    other = source.get((name, declared.name), "the API itself")
                    raise ConfigError(
                        f"{name}.{declared.name} is declared by extension driver {driver!r} "
                        f"and by {other}; leave out one of them"
                    )
                source[name, declared.name] = f"extension driver {driver!r}"
                more = vendor_extensions.attribute(declared)
                by_name[name] = evolve(resource, attributes=(*resource.attributes, more))
    return list(by_name.values())


def _whose(resource: ApiResource) -> str:
    return f"API extension {resource.alias!r}" if resource.alias else "the API itself"


def _refuse_collisions(resources: Iterable[ApiResource]) -> None:
    taken: dict[tuple[str, ...], ApiResource] = {}
    for each in resources:
        url = ("the URL", each.parent or "", each.path)
        for key in (url, ("the name", each.name)):
            other = taken.setdefault(key, each)
            if other is not each:
                raise ConfigError(
                    f"{key[0]} {key[-1]!r} is declared by {_whose(other)} and by {_whose(each)}; "
                    "leave out one of them"
                )


def _refuse_orphans(resources: Sequence[ApiResource]) -> None:
    names = {each.name for each in resources}
    for each in resources:
        for other in sorted(_related(each) - names):
            raise ConfigError(
                f"{each.name} of {_whose(each)} belongs to {other!r}, "
                f"which is not declared{nearest(other, names)}"
            )


def _refuse_alias_twice(extensions: Iterable[ExtensionInfo]) -> None:
    counts = Counter(each.alias for each in extensions)
    twice = sorted(alias for alias, count in counts.items() if count > 1)
    if twice:
        who = [each.name for each in extensions if each.alias == twice[0]]
        raise ConfigError(
            f"the alias {twice[0]!r} is declared by {' and by '.join(map(repr, who))}"
        )


def _refuse_lacking(api: Sequence[ApiExtension], aliases: set[str]) -> None:
    for extension in api:
        for missing in sorted(extension.requires() - aliases):
            raise ConfigError(
                f"API extension {extension.info().alias!r} requires {missing!r}, "
                f"which this server does not have{nearest(missing, aliases)}"
            )
