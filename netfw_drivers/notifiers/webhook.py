"""WebhookNotifier: posts changes to a URL."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

from oslo_config import cfg

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.change import Change
from netfw.drivers.server.notifier import Notifier
from netfw.errors import ConfigError
from netfw.model.resource import Kind, Resource
from netfw.model.wire import render
from netfw_drivers.notifiers.http_client import HttpPoster

SIGNATURE: Final = "X-Netfw-Signature"
RESOURCE_TYPES: Final = tuple(kind.value for kind in Kind)


class WebhookNotifier(Notifier):
    """Posts ``{"events": [...]}``: each event has its type (such as
    ``port.create``), the type, id and revision of the resource, and the resource before and after.

    With a secret, the header ``X-Netfw-Signature: t=TIME,v1=HEX`` has the HMAC-SHA256 of
    ``TIME.BODY``.  Of several addresses, all must accept a batch before the next one is sent.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.ListOpt("urls", default=[], help="URLs that receive every event."),
        cfg.StrOpt("secret", secret=True, help="HMAC key of the signature header."),
        cfg.ListOpt(
            "resource_types",
            default=["network", "subnet", "port", "router", "floatingip"],
            help=f"Resources whose changes are posted, of {', '.join(RESOURCE_TYPES)}.",
        ),
        cfg.FloatOpt("timeout", default=10.0, min=0.1, help="Seconds to wait for an answer."),
        cfg.StrOpt("ca_file", help="Authorities to trust instead of the system's."),
    )

    def __init__(
        self,
        urls: Sequence[str],
        *,
        secret: str | None = None,
        resource_types: Sequence[str] = RESOURCE_TYPES,
        timeout: float = 10.0,
        ca_file: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._urls, self._secret = tuple(urls), secret
        self._resource_types, self._clock = frozenset(map(Kind, resource_types)), clock
        self._poster = HttpPoster(timeout=timeout, ca_file=ca_file)

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        if not options["urls"]:
            raise ConfigError("no address to notify: set urls in [webhook]")
        for url in options["urls"]:
            if not url.startswith(("http://", "https://")):
                raise ConfigError(
                    f"[webhook] urls: {url!r} begins with neither http:// nor https://"
                )
        unknown = sorted(set(options["resource_types"]) - set(RESOURCE_TYPES))
        if unknown:
            known = ", ".join(RESOURCE_TYPES)
            raise ConfigError(
                f"[webhook] resource_types: there is no {unknown[0]}; there are {known}"
            )
        return cls(**options)

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("webhook")

    def concerns(self, change: Change) -> bool:
        is_change = not change.ready_host or change.before != change.after
        return is_change and change.ref.kind in self._resource_types

    def notify(self, changes: Sequence[Change]) -> None:
        body = json.dumps({"events": [event(each) for each in changes]}).encode()
        headers = {} if self._secret is None else {SIGNATURE: self._signed(body)}
        for url in self._urls:
            self._poster.post(url, body, headers, authenticated=False)

    def _signed(self, body: bytes) -> str:
        return signature(str(self._secret), int(self._clock()), body)


def signature(secret: str, at: int, body: bytes) -> str:
    """Compute the signature header of *body*, sent *at* that time."""
    digest = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def event(change: Change) -> dict[str, Any]:
    """Render a change as an event."""
    what = "create" if change.before is None else "delete" if change.after is None else "update"
    return {
        "event_type": f"{change.ref.kind}.{what}",
        "resource_type": change.ref.kind.value,
        "id": str(change.ref.id),
        "revision": change.revision,
        "request_id": change.request_id,
        "before": _shown(change.before),
        "after": _shown(change.after),
    }


def _shown(resource: Resource | None) -> dict[str, Any] | None:
    return None if resource is None else render(resource)
