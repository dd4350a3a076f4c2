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
KINDS: Final = tuple(kind.value for kind in Kind)


class WebhookNotifier(Notifier):
    """Posts ``{"events": [...]}``: each event has the kind, id and revision of a resource, what
    happened (``create``, ``update``, ``delete``), and the resource before and after.

    With a secret, the header ``X-Netfw-Signature: t=TIME,v1=HEX`` has the HMAC-SHA256 of
    ``TIME.BODY``.  Of several addresses, all must accept a batch before the next one is sent.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.ListOpt("urls", default=[], help="Where to post to; all of them hear of everything."),
        cfg.StrOpt("secret", secret=True, help="With which what is posted is signed."),
        cfg.ListOpt(
            "kinds",
            default=["network", "subnet", "port", "router", "floatingip"],
            help=f"Which resources to tell of, of {', '.join(KINDS)}.",
        ),
        cfg.FloatOpt("timeout", default=10.0, min=0.1, help="Seconds to wait for an answer."),
        cfg.StrOpt("ca_file", help="Certificates to trust instead of the system's."),
    )

    def __init__(
        self,
        urls: Sequence[str],
        *,
        secret: str | None = None,
        kinds: Sequence[str] = KINDS,
        timeout: float = 10.0,
        ca_file: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._urls, self._secret = tuple(urls), secret
        self._kinds, self._clock = frozenset(map(Kind, kinds)), clock
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
        unknown = sorted(set(options["kinds"]) - set(KINDS))
        if unknown:
            known = ", ".join(KINDS)
            raise ConfigError(f"[webhook] kinds: there is no {unknown[0]}; there are {known}")
        return cls(**options)

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("webhook")

    def concerns(self, change: Change) -> bool:
        is_change = not change.ready_host or change.before != change.after
        return is_change and change.ref.kind in self._kinds

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
        "event": f"{change.ref.kind}.{what}",
        "kind": change.ref.kind.value,
        "id": str(change.ref.id),
        "revision": change.revision,
        "request_id": change.request_id,
        "before": _shown(change.before),
        "after": _shown(change.after),
    }


def _shown(resource: Resource | None) -> dict[str, Any] | None:
    return None if resource is None else render(resource)
