"""OptionlessExtension: an L3 extension that is configured by resources of the API alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.l3_extension import L3Extension
from netfw.drivers.values.pipeline_grant import GrantRequest


class OptionlessExtension(L3Extension):
    """An L3 extension without options, which needs nothing of the router but rules of its own."""

    VERSION: ClassVar[int] = 2
    NAME: ClassVar[str]
    """Name of the entry point."""
    OWNER: ClassVar[str | None] = None
    """Owner of the contributions; ``None``: *NAME*."""

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo(self.NAME)

    def grant_request(self) -> GrantRequest:
        return GrantRequest(owner=self.OWNER or self.NAME)
