"""Quarantine: an extension that restricts some ports to the clinic."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, ClassVar, Self
from uuid import UUID

from oslo_config import cfg

from netfw import flows as of
from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.l2_extension import ExtendedPort, L2Extension
from netfw.drivers.values.events import KeysChanged, Sink
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest, PipelineHook, TableRequest
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.errors import ConfigError
from netfw.model.values.ids import PortId

LOG = logging.getLogger(__name__)
TAG = "quarantine"
POLL = 0.2


class Quarantine(L2Extension):
    """Lets ports with the tag ``quarantine``, or listed in a file, reach only the clinic."""

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.StrOpt("clinic", required=True, help="The prefix that ports in quarantine may reach."),
        cfg.StrOpt("list_file", help="File with ids of ports, one on a line; polled for changes."),
    )

    def __init__(self, clinic: IPv4Network, list_file: Path | None = None) -> None:
        self._clinic = clinic
        self._file = list_file
        self._listed: frozenset[PortId] = frozenset()
        self._closed = threading.Event()

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        try:
            clinic = IPv4Network(options["clinic"])
        except ValueError as exc:
            raise ConfigError(f"clinic is not a prefix like 192.0.2.0/24: {exc}") from exc
        return cls(clinic, Path(options["list_file"]) if options["list_file"] else None)

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("quarantine")

    def grant_request(self) -> GrantRequest:
        return GrantRequest(
            owner="quarantine", tables=(TableRequest(name="filter", hook=PipelineHook.FROM_PORT),)
        )

    def contribute(
        self, key: PortId, value: ExtendedPort, grant: Grant
    ) -> SwitchContribution | None:
        number = value.device.ofport
        if number is None or not (TAG in value.port.tags or key in self._listed):
            return None
        table, from_port = grant.tables["filter"], of.in_port(number)
        assert table.then is not None  # every hook but DROPPED has a next table
        onward = of.goto(table.then)
        allowed = (from_port & of.arp(), from_port & of.ipv4() & of.ipv4_dst(self._clinic))
        return SwitchContribution(
            owner=grant.owner,
            flows=(
                *(_flow(grant, 20, match, onward) for match in allowed),
                _flow(grant, 10, from_port),
            ),
        )

    def watch(self, sink: Sink) -> None:
        if self._file is not None:
            self._listed = self._read(self._file)  # before the first call of contribute
            threading.Thread(target=self._poll, args=(self._file, sink), daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _poll(self, file: Path, sink: Sink) -> None:
        while not self._closed.wait(POLL):
            former, self._listed = self._listed, self._read(file)
            if changed := former ^ self._listed:
                sink(KeysChanged("the list of ports in quarantine changed", changed))

    def _read(self, file: Path) -> frozenset[PortId]:
        """Return the ports in the file; keep the former list while the file is invalid."""
        try:
            return frozenset(PortId(UUID(line)) for line in file.read_text().split())
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError) as exc:
            LOG.warning(
                "%s is not a list of port ids: %s; the former list stays in force", file, exc
            )
            return self._listed


def _flow(grant: Grant, priority: int, match: of.Match, *actions: of.Action) -> of.Flow:
    return of.Flow(
        table=grant.tables["filter"].number,
        priority=priority,
        match=match,
        actions=actions,
        cookie=grant.cookie,
    )
