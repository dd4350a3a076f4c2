"""The topology of a lab, as a value and as a TOML document."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from ipaddress import ip_interface
from typing import Any, TypeVar

from attrs import field, frozen

from netfw.errors import InvalidInput, nearest
from netfw.testing.lab.instance import InstanceDevice, Plug
from netfw.testing.lab.lab import MAX_HOSTS, Lab

T = TypeVar("T")


@frozen
class Placed:
    """An instance, and the host it is on."""

    name: str
    host: str
    plug: Plug | None = None


@frozen(kw_only=True)
class LabTopology:
    """Hosts, the bridges on each of them, physical networks, and instances."""

    hosts: int = 2
    bridges: tuple[str, ...] = ("br-int",)
    provider: tuple[str, ...] = ()
    mtu: int = 1500
    instances: tuple[Placed, ...] = field(default=())

    def lab(self) -> Lab:
        """Return the lab, not started yet and without instances."""
        return Lab(self.hosts, bridges=self.bridges, provider=self.provider, mtu=self.mtu)

    def populate(self, lab: Lab) -> None:
        """Add the instances to *lab*, which is up."""
        for placed in self.instances:
            lab.hosts[placed.host].instance(placed.name, placed.plug)


def parse(text: str) -> LabTopology:
    """Parse the topology that the TOML document *text* describes.

    :raises InvalidInput: naming everything that is wrong with it.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput({"topology": f"not TOML: {error}"}) from error
    return read(document)


def read(document: Mapping[str, Any]) -> LabTopology:
    """Return the topology that *document* describes.

    :raises InvalidInput: naming everything that is wrong with it.
    """
    reader = _Reader(document, "")
    hosts = reader.take("hosts", int, 2)
    if not 1 <= hosts <= MAX_HOSTS:
        reader.problems["hosts"] = f"a lab has 1 to {MAX_HOSTS} hosts"
    topology = LabTopology(
        hosts=hosts,
        bridges=reader.names("bridges", ("br-int",)),
        provider=reader.names("provider", ()),
        mtu=reader.take("mtu", int, 1500),
        instances=tuple(_instances(reader, hosts)),
    )
    reader.finish()
    return topology


def _instances(reader: _Reader, hosts: int) -> list[Placed]:
    instances = []
    for index, document in enumerate(reader.take("instances", list, [])):
        if not isinstance(document, Mapping):
            reader.add_problem(f"instances[{index}]", "a table is expected here")
            continue
        inner = _Reader(document, f"instances[{index}].", reader.problems)
        instances.append(_instance(inner, {f"host{number}" for number in range(1, hosts + 1)}))
        inner.refuse_the_rest()
    return instances


def _instance(reader: _Reader, hosts: set[str]) -> Placed:
    name = reader.take("name", str, "")
    host = reader.take("host", str, "host1")
    if not name:
        reader.add_problem("name", "every instance has a name")
    if host not in hosts:
        reader.add_problem("host", f"{host!r} is not one of {', '.join(sorted(hosts))}")
    bridge = reader.take("bridge", str, "")
    plug = Plug(
        bridge=bridge,
        device=reader.take("device", str, f"tap-{name}"[:15]),
        kind=reader.convert("kind", InstanceDevice, "veth"),
        mac=reader.take("mac", str, "") or None,
        addresses=tuple(reader.convert_all("addresses", ip_interface)),
        gateways=reader.names("gateways", ()),
        mtu=reader.take("mtu", int, 1500),
        tag=reader.take("tag", int, None),
        external_ids=reader.texts("external_ids"),
    )
    return Placed(name, host, plug if bridge else None)


class _Reader:
    """A reader of a document's values that collects what is wrong with them."""

    def __init__(
        self, document: Mapping[str, Any], path: str, problems: dict[str, str] | None = None
    ) -> None:
        self.problems: dict[str, str] = {} if problems is None else problems
        self._path = path
        self._left = dict(document)
        self._known: set[str] = set()

    def add_problem(self, key: str, text: str) -> None:
        self.problems[f"{self._path}{key}"] = text

    def take(self, key: str, kind: type[Any], default: Any) -> Any:
        self._known.add(key)
        value = self._left.pop(key, default)
        if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
            self.add_problem(key, f"{kind.__name__} is expected here, not {value!r}")
            return default
        return value

    def names(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self.take(key, list, list(default))
        if all(isinstance(name, str) and name for name in value):
            return tuple(value)
        self.add_problem(key, "a list of names is expected here")
        return default

    def texts(self, key: str) -> dict[str, str]:
        value: dict[str, Any] = self.take(key, dict, {})
        if all(isinstance(text, str) for text in value.values()):
            return value
        self.add_problem(key, "a table of texts is expected here")
        return {}

    def convert(self, key: str, convert: Callable[[Any], T], default: str) -> T:
        try:
            return convert(self.take(key, str, default))
        except ValueError as error:
            self.add_problem(key, str(error))
            return convert(default)

    def convert_all(self, key: str, convert: Callable[[Any], T]) -> list[T]:
        values = []
        for index, text in enumerate(self.take(key, list, [])):
            try:
                values.append(convert(text))
            except ValueError as error:
                self.add_problem(f"{key}[{index}]", str(error))
        return values

    def refuse_the_rest(self) -> None:
        for key in self._left:
            self.add_problem(key, f"there is no such setting{nearest(key, self._known)}")

    def finish(self) -> None:
        self.refuse_the_rest()
        if self.problems:
            raise InvalidInput(self.problems)
