"""Parser of the reply of ``ovs-vswitchd`` to ``dpif/show``: ports and their numbers.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import field, frozen

_BRIDGE = re.compile(r"  (?P<name>[^\s:]+):")
_PORT = re.compile(
    r"    (?P<name>\S+) (?P<ofport>\d+)/(?P<number>\d+|none):"
    r"(?: \((?P<kind>[^:)]+)(?:: (?P<options>.*))?\))?"
)


@frozen(kw_only=True)
class DatapathPort:
    """A port of a bridge."""

    bridge: str
    name: str
    ofport: int
    number: int | None = None
    """Its number in the datapath; ``None``: it has none, as patch ports."""
    kind: str = "system"
    options: dict[str, str] = field(factory=dict)


def parse_ports(text: str) -> list[DatapathPort]:
    """Parse the reply to ``dpif/show``."""
    return list(_ports(text))


def _ports(text: str) -> Iterator[DatapathPort]:
    bridge = ""
    for line in text.splitlines():
        if found := _PORT.match(line):
            number = found["number"]
            options = dict(
                word.partition("=")[::2] for word in (found["options"] or "").split(", ") if word
            )
            yield DatapathPort(
                bridge=bridge,
                name=found["name"],
                ofport=int(found["ofport"]),
                number=None if number == "none" else int(number),
                kind=found["kind"] or "system",
                options=options,
            )
        elif found := _BRIDGE.match(line):
            bridge = found["name"]


def port_of_number(ports: list[DatapathPort], number: int) -> DatapathPort | None:
    """Return the port with that number in the datapath; tunnels share theirs."""
    return next((port for port in ports if port.number == number), None)


def tunnel_port(ports: list[DatapathPort], kind: str, remote: str) -> DatapathPort | None:
    """Return the port by which packets of a tunnel of *kind* from *remote* enter.

    An empty *kind* stands for any.
    """
    fitting = [port for port in ports if kind in ("", port.kind)]
    exact = [port for port in fitting if port.options.get("remote_ip") == remote]
    any_remote = [port for port in fitting if port.options.get("remote_ip") == "flow"]
    return next(iter((*exact, *any_remote)), None)
