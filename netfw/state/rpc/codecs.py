"""Codecs of everything but resources: subscriptions, cursors, reports, requests and answers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from netfw.drivers.state_source import Cursor
from netfw.drivers.values.agent_requests import (
    EnabledServices,
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    FindPorts,
    ReleaseDhcpPort,
    ReleaseGatewayPort,
    Request,
    ResolveDevices,
    SetPrefix,
)
from netfw.drivers.values.reports import Heartbeat, Report, RoleReport, StatusReport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import InvalidInput, NotSupported
from netfw.model.resource import Kind, Ref
from netfw.model.router import HaRole
from netfw.model.wire import CODECS
from netfw.model.wire.codec import Codec, CodecError, Json, Listed, Nullable, Scalar, describe
from netfw.model.wire.common import STATUS
from netfw.model.wire.object_codec import NamedField, ObjectCodec, Tagged
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
from netfw.state.rpc.compat import PeerCompatibility, prune

MANY: Final = 65_536
REASON_LENGTH: Final = 2_000
MAX_COUNTS: Final = 100
COUNT_NAME_LENGTH: Final = 100
COUNT_BITS: Final = 63


def _parse_reason(raw: object) -> str:
    """Return the reason as text; a malformed one does not invalidate the report."""
    return str(raw)[:REASON_LENGTH]


def _parse_counts(raw: object) -> Mapping[str, int]:
    if not isinstance(raw, Mapping):
        raise ValueError(f"not an object: {describe(raw)}")
    counts = ((str(name), value) for name, value in raw.items() if _is_count(name, value))
    return dict(islice(counts, MAX_COUNTS))


def _is_count(name: object, value: object) -> bool:
    """Return whether a count is of a size that the server stores."""
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
REF: Final = ObjectCodec(Ref, (NamedField("kind", choice(Kind)), NamedField("id", ID)))
CURSOR: Final = ObjectCodec(Cursor, (NamedField("epoch", TOKEN), NamedField("seq", REVISION)))
SUBSCRIPTION: Final = ObjectCodec(
    Subscription,
    (NamedField("host", HOST), NamedField("services", Listed(SERVICE, frozenset))),
)
_ABOUT = (
    NamedField("ref", REF),
    NamedField("revision", REVISION),
    NamedField("host", HOST),
    NamedField("service", SERVICE),
)
REPORT: Final = Tagged(
    "type",
    MappingProxyType(
        {
            "status": ObjectCodec(
                StatusReport,
                (
                    *_ABOUT,
                    NamedField("status", STATUS),
                    NamedField("reason", Scalar(_parse_reason, _parse_reason)),
                ),
            ),
            "role": ObjectCodec(
                RoleReport,
                (
                    *_ABOUT,
                    NamedField("role", choice(HaRole)),
                    NamedField("boot", Nullable(ID)),
                    NamedField("since", REVISION),
                ),
            ),
            "heartbeat": ObjectCodec(
                Heartbeat,
                (
                    NamedField("agent", CODECS[Kind.AGENT]),
                    NamedField("counts", Scalar(_parse_counts, dict)),
                    NamedField("start", BOOLEAN),
                ),
            ),
        }
    ),
)
PORTS: Final = Listed(PORT, limit=MANY)
NOTHING: Final[Scalar[None]] = Scalar(_parse_nothing, _render_nothing)
_NETWORK, _HOST = NamedField("network", ID), NamedField("host", HOST)


@frozen
class RequestCodec:
    """The codecs of one kind of request and of its answer."""

    name: str
    request: ObjectCodec[Any]
    answer: Codec[Any]


REQUEST_CODECS: Final = (
    RequestCodec(
        "ensure_dhcp_port",
        ObjectCodec(
            EnsureDhcpPort,
            (_NETWORK, _HOST, NamedField("subnets", Listed(ID, frozenset))),
        ),
        PORT,
    ),
    RequestCodec("release_dhcp_port", ObjectCodec(ReleaseDhcpPort, (_NETWORK, _HOST)), NOTHING),
    RequestCodec(
        "find_ports",
        ObjectCodec(
            FindPorts,
            (
                NamedField("address", ADDRESS),
                NamedField("network", Nullable(ID)),
                NamedField("router", Nullable(ID)),
            ),
        ),
        PORTS,
    ),
    RequestCodec("ensure_gateway_port", ObjectCodec(EnsureGatewayPort, (_NETWORK, _HOST)), PORT),
    RequestCodec(
        "release_gateway_port", ObjectCodec(ReleaseGatewayPort, (_NETWORK, _HOST)), NOTHING
    ),
    RequestCodec("ensure_host_mac", ObjectCodec(EnsureHostMac, (_HOST,)), MAC),
    RequestCodec("enabled_services", ObjectCodec(EnabledServices, ()), Listed(TEXT, frozenset)),
    RequestCodec(
        "set_prefix",
        ObjectCodec(
            SetPrefix,
            (
                NamedField("router", ID),
                NamedField("subnet", ID),
                NamedField("prefix", Nullable(PREFIX)),
            ),
        ),
        NOTHING,
    ),
    RequestCodec(
        "resolve_devices",
        ObjectCodec(ResolveDevices, (NamedField("ports", Listed(ID, frozenset, limit=MANY)),)),
        PORTS,
    ),
)
_BY_NAME: Final = {codec.name: codec for codec in REQUEST_CODECS}
_BY_REQUEST: Final = {codec.request.cls: codec for codec in REQUEST_CODECS}


def read(codec: Codec[Any], raw: object, what: str) -> Any:
    """Parse *raw* with *codec*; unknown names are ignored.

    :raises InvalidInput: what is wrong with it.
    """
    try:
        return codec.parse(prune(codec, raw))
    except CodecError as exc:
        raise InvalidInput({f"{what}.{path}": text for path, text in exc.problems.items()}) from exc
    except ValueError as exc:
        raise InvalidInput({what: str(exc)}) from exc


def read_subscription(raw: object, peer: PeerCompatibility) -> Subscription:
    """Parse a subscription; unknown services are left out.

    :raises InvalidInput: it is malformed.
    """
    if isinstance(raw, Mapping) and isinstance(raw.get("services"), list):
        known = [name for name in raw["services"] if name in list(Service)]
        for unknown in (name for name in raw["services"] if name not in known):
            peer.warn(f"an agent subscribes to the unknown service {str(unknown)[:64]!r}")
        raw = {**raw, "services": known}
    subscription: Subscription = read(SUBSCRIPTION, raw, "subscription")
    return subscription


def read_report(raw: object, peer: PeerCompatibility) -> Report | None:
    """Parse a report; ``None``: of a kind that this release does not know."""
    try:
        report: Report = REPORT.parse(prune(REPORT, raw))
    except ValueError as exc:
        peer.warn(f"a report is ignored: {exc}")
        return None
    return report


def codec_named(name: object) -> RequestCodec:
    """Return the codecs of the request of that name.

    :raises NotSupported: there is no such request.
    """
    codec = _BY_NAME.get(str(name))
    if codec is None:
        raise NotSupported(f"this server does not know the request {str(name)[:64]!r}")
    return codec


def codec_of(request: Request[Any]) -> RequestCodec | None:
    """Return the codecs of *request*, if it can be sent."""
    return _BY_REQUEST.get(type(request))
