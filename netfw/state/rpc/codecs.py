"""Everything that is sent beside resources: interests, cursors, reports, requests and answers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from netfw.drivers.agent_requests import (
    EnabledServices,
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    FindPorts,
    ReleaseDhcpPort,
    Request,
    ResolveDevices,
    SetPrefix,
)
from netfw.drivers.reports import Heartbeat, Report, RoleReport, StatusReport
from netfw.drivers.router_values import HaRole
from netfw.drivers.state_source import Cursor
from netfw.drivers.subscription import Service, Subscription
from netfw.errors import InvalidInput, NotSupported
from netfw.model.resource import Kind, Ref
from netfw.model.wire import CODECS
from netfw.model.wire.codec import Codec, Faulty, Json, Listed, Nullable, Scalar, describe
from netfw.model.wire.common import STATUS
from netfw.model.wire.object_codec import Attribute, ObjectCodec, Tagged
from netfw.model.wire.scalars import (
    ADDRESS,
    BOOLEAN,
    HOST,
    ID,
    MAC,
    PREFIX,
    REVISION,
    TEXT,
    TOKEN,
    choice,
)
from netfw.state.rpc.compat import PeerCompatibility, pruned

MANY: Final = 65_536
REASON_LENGTH: Final = 2_000
MOST_COUNTS: Final = 100
COUNT_NAME_LENGTH: Final = 100
COUNT_BITS: Final = 63


def _parse_reason(raw: object) -> str:
    """Text for a person: whatever it is, it does not keep a report from being heard."""
    return str(raw)[:REASON_LENGTH]


def _parse_counts(raw: object) -> Mapping[str, int]:
    if not isinstance(raw, Mapping):
        raise ValueError(f"not an object: {describe(raw)}")
    found = ((str(name), value) for name, value in raw.items() if _counts(name, value))
    return dict(islice(found, MOST_COUNTS))


def _counts(name: object, value: object) -> bool:
    """Whether it is a number as agents have some: they are kept and shown with each agent."""
    return (
        isinstance(value, int)
        and value.bit_length() <= COUNT_BITS
        and len(str(name)) <= COUNT_NAME_LENGTH
    )


def _parse_nothing(raw: object) -> None:
    return None


def _render_nothing(value: None) -> Json:
    return None


PORT: Final = CODECS[Kind.PORT]
SERVICE: Final = choice(Service)
REF: Final = ObjectCodec(Ref, (Attribute("kind", choice(Kind)), Attribute("id", ID)))
CURSOR: Final = ObjectCodec(Cursor, (Attribute("epoch", TOKEN), Attribute("seq", REVISION)))
INTEREST: Final = ObjectCodec(
    Subscription,
    (Attribute("host", HOST), Attribute("services", Listed(SERVICE, frozenset))),
)
_ABOUT = (
    Attribute("ref", REF),
    Attribute("revision", REVISION),
    Attribute("host", HOST),
    Attribute("service", SERVICE),
)
REPORT: Final = Tagged(
    "type",
    MappingProxyType(
        {
            "status": ObjectCodec(
                StatusReport,
                (
                    *_ABOUT,
                    Attribute("status", STATUS),
                    Attribute("reason", Scalar(_parse_reason, str)),
                ),
            ),
            "role": ObjectCodec(RoleReport, (*_ABOUT, Attribute("role", choice(HaRole)))),
            "heartbeat": ObjectCodec(
                Heartbeat,
                (
                    Attribute("agent", CODECS[Kind.AGENT]),
                    Attribute("counts", Scalar(_parse_counts, dict)),
                    Attribute("start", BOOLEAN),
                ),
            ),
        }
    ),
)
PORTS: Final = Listed(PORT, limit=MANY)
NOTHING: Final[Scalar[None]] = Scalar(_parse_nothing, _render_nothing)
_NETWORK, _HOST = Attribute("network", ID), Attribute("host", HOST)


@frozen
class RequestCodec:
    """A kind of request, and what its answer is."""

    name: str
    request: ObjectCodec[Any]
    answer: Codec[Any]


DIALOGUES: Final = (
    RequestCodec(
        "ensure_dhcp_port",
        ObjectCodec(
            EnsureDhcpPort,
            (_NETWORK, _HOST, Attribute("subnets", Listed(ID, frozenset))),
        ),
        PORT,
    ),
    RequestCodec("release_dhcp_port", ObjectCodec(ReleaseDhcpPort, (_NETWORK, _HOST)), NOTHING),
    RequestCodec(
        "find_ports",
        ObjectCodec(
            FindPorts,
            (
                Attribute("address", ADDRESS),
                Attribute("network", Nullable(ID)),
                Attribute("router", Nullable(ID)),
            ),
        ),
        PORTS,
    ),
    RequestCodec("ensure_gateway_port", ObjectCodec(EnsureGatewayPort, (_NETWORK, _HOST)), PORT),
    RequestCodec("ensure_host_mac", ObjectCodec(EnsureHostMac, (_HOST,)), MAC),
    RequestCodec("enabled_services", ObjectCodec(EnabledServices, ()), Listed(TEXT, frozenset)),
    RequestCodec(
        "set_prefix",
        ObjectCodec(SetPrefix, (Attribute("subnet", ID), Attribute("prefix", Nullable(PREFIX)))),
        NOTHING,
    ),
    RequestCodec(
        "resolve_devices",
        ObjectCodec(ResolveDevices, (Attribute("ports", Listed(ID, frozenset, limit=MANY)),)),
        PORTS,
    ),
)
_BY_NAME: Final = {each.name: each for each in DIALOGUES}
_BY_REQUEST: Final = {each.request.cls: each for each in DIALOGUES}


def read(codec: Codec[Any], raw: object, what: str) -> Any:
    """The value that *raw* says to *codec*; names that are not known here are ignored.

    :raises InvalidInput: what is wrong with it.
    """
    try:
        return codec.parse(pruned(codec, raw))
    except Faulty as exc:
        raise InvalidInput({f"{what}.{path}": text for path, text in exc.faults.items()}) from exc
    except ValueError as exc:
        raise InvalidInput({what: str(exc)}) from exc


def read_interest(raw: object, peer: PeerCompatibility) -> Subscription:
    """Who asks, and for what; a service that is not known here has nothing to tell.

    :raises InvalidInput: it is none.
    """
    if isinstance(raw, Mapping) and isinstance(raw.get("services"), list):
        known = [each for each in raw["services"] if each in list(Service)]
        for unknown in (each for each in raw["services"] if each not in known):
            peer.say(f"an agent asks for the service {str(unknown)[:64]!r}: it is told nothing")
        raw = {**raw, "services": known}
    interest: Subscription = read(INTEREST, raw, "interest")
    return interest


def read_report(raw: object, peer: PeerCompatibility) -> Report | None:
    """What an agent reports; ``None``: this release cannot know it."""
    try:
        report: Report = REPORT.parse(pruned(REPORT, raw))
    except ValueError as exc:
        peer.say(f"a report is ignored: {exc}")
        return None
    return report


def dialogue(name: object) -> RequestCodec:
    """The dialogue of that name.

    :raises NotSupported: there is none.
    """
    found = _BY_NAME.get(str(name))
    if found is None:
        raise NotSupported(f"this server does not know the request {str(name)[:64]!r}")
    return found


def dialogue_of(request: Request[Any]) -> RequestCodec | None:
    """The dialogue that *request* begins."""
    return _BY_REQUEST.get(type(request))
