"""ComputeNotifier: sends external events on ports to a compute service."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Self

from keystoneauth1.identity import Password
from keystoneauth1.noauth import NoAuth
from keystoneauth1.plugin import BaseAuthPlugin
from keystoneauth1.token_endpoint import Token
from oslo_config import cfg

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.change import Change
from netfw.drivers.server.notifier import Notifier
from netfw.errors import BackendUnavailable, ConfigError
from netfw.model.port import Port
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import is_compute
from netfw_drivers.notifiers.http_client import HttpPoster

LOG = logging.getLogger(__name__)

EVENTS_PATH: Final = "/os-server-external-events"
UNKNOWN: Final = "itemNotFound"
"""Status of an answer in which the compute service knows none of the instances."""
AUTHENTICATION: Final = (
    ("none", "not at all"),
    ("token", "by a token that does not expire"),
    ("password", "by the password of a user, at auth_url"),
)


class ComputeNotifier(Notifier):
    """Posts external events of Nova's API: a device is plugged, could not be, is unplugged, is
    gone, or its addresses changed.  A device that is ready at the target of a live migration is
    plugged, too: the compute service migrates the instance then.

    Events of instances that the compute service does not know are not retried.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.StrOpt("endpoint", help="The compute API, such as http://controller:8774/v2.1."),
        cfg.StrOpt(
            "auth",
            default="password",
            choices=AUTHENTICATION,
            help="Authentication: by a user's password at auth_url, by a token that does not "
            "expire, or none.",
        ),
        cfg.StrOpt("token", secret=True, help="For auth = token."),
        cfg.StrOpt("auth_url", help="The identity API, for auth = password."),
        cfg.StrOpt("username", help="For auth = password."),
        cfg.StrOpt("password", secret=True, help="For auth = password."),
        cfg.StrOpt("project_name", default="service", help="For auth = password."),
        cfg.StrOpt("user_domain_name", default="Default", help="For auth = password."),
        cfg.StrOpt("project_domain_name", default="Default", help="For auth = password."),
        cfg.FloatOpt("timeout", default=10.0, min=0.1, help="Seconds to wait for an answer."),
        cfg.StrOpt("ca_file", help="Certificates to trust instead of the system's."),
    )

    def __init__(
        self,
        endpoint: str,
        auth: BaseAuthPlugin | None = None,
        *,
        timeout: float = 10.0,
        ca_file: str | None = None,
    ) -> None:
        self._url = endpoint.rstrip("/") + EVENTS_PATH
        self._poster = HttpPoster(timeout=timeout, ca_file=ca_file, auth=auth or NoAuth())

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        needed = {
            "none": ("endpoint",),
            "token": ("endpoint", "token"),
            "password": ("endpoint", "auth_url", "username", "password"),
        }[options["auth"]]
        missing = [name for name in needed if not options[name]]
        if missing:
            way = options["auth"]
            raise ConfigError(f"[compute] auth = {way} needs {', '.join(missing)}: set it there")
        return cls(
            options["endpoint"],
            _plugin(options),
            timeout=options["timeout"],
            ca_file=options["ca_file"],
        )

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("compute")

    def concerns(self, change: Change) -> bool:
        return bool(events(change))

    def notify(self, changes: Sequence[Change]) -> None:
        pending: dict[tuple[str, str, str], dict[str, str]] = {}
        for change in changes:
            for each in events(change):
                key = each["name"], each["server_uuid"], each["tag"]
                pending.pop(key, None)
                pending[key] = each
        if not pending:
            return
        body = json.dumps({"events": list(pending.values())}).encode()
        headers = {"Accept": "application/json"}
        reply = self._poster.post(self._url, body, headers, accepted=(404,))
        if reply.status == 404 and UNKNOWN not in reply.text:
            raise BackendUnavailable(f"there is no compute API at {self._url}; is endpoint right?")
        if reply.status in (207, 404):
            LOG.info("compute service: unknown instances among those of %d events", len(pending))


def events(change: Change) -> tuple[dict[str, str], ...]:
    """Build the external events of *change*."""
    before, after = change.before, change.after
    now = _attached(after)
    was = _attached(before)
    if was is not None and (now is None or now.device_id != was.device_id):
        return (_event("network-vif-deleted", was),)
    if now is None:
        return ()
    found = []
    if was is None or was.status != now.status:
        found += _by_status(was, now)
    if change.ready_host:
        found.append(_event("network-vif-plugged", now, status="completed"))
    if was is not None and (was.fixed_ips, was.mac) != (now.fixed_ips, now.mac):
        found.append(_event("network-changed", now))
    return tuple(found)


def _by_status(was: Port | None, now: Port) -> list[dict[str, str]]:
    if now.status is Status.ACTIVE:
        return [_event("network-vif-plugged", now, status="completed")]
    if now.status is Status.ERROR:
        return [_event("network-vif-plugged", now, status="failed")]
    if was is not None and was.status is Status.ACTIVE:
        return [_event("network-vif-unplugged", now, status="completed")]
    return []


def _attached(resource: object) -> Port | None:
    """Return the port if it belongs to an instance."""
    if isinstance(resource, Port) and resource.device_id and is_compute(resource.device_owner):
        return resource
    return None


def _event(name: str, port: Port, **more: str) -> dict[str, str]:
    return {"name": name, "server_uuid": port.device_id, "tag": str(port.id), **more}


def _plugin(options: Mapping[str, Any]) -> BaseAuthPlugin:
    match options["auth"]:
        case "none":
            return NoAuth()
        case "token":
            return Token(options["endpoint"], options["token"])
        case _:
            names = ("auth_url", "username", "password", "project_name")
            domains = ("user_domain_name", "project_domain_name")
            return Password(**{name: options[name] for name in (*names, *domains)})
