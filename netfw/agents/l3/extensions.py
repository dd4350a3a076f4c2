"""Calls of L3 extensions for routers."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address

from netfw.agents.common.extension_calls import (
    ExtensionCallKey,
    ExtensionCalls,
    validate_contribution,
)
from netfw.drivers.l3_extension import ExtendedRouter, L3Extension
from netfw.drivers.support.router_directory import RouterDirectory
from netfw.drivers.values.router_contribution import AddressQos, RouterContribution, RouterRule
from netfw.model.values.address import IpInterface
from netfw.model.values.ids import RouterId


class RouterExtensions(ExtensionCalls[RouterId, ExtendedRouter, RouterContribution]):
    """The contributions of each extension to each router, and the directory that they read."""

    NOUN = "router"

    def __init__(
        self, extensions: Sequence[L3Extension], directory: RouterDirectory | None = None
    ) -> None:
        super().__init__(extensions)
        self._directory = RouterDirectory() if directory is None else directory

    def update(
        self, id: RouterId, view: ExtendedRouter | None
    ) -> frozenset[ExtensionCallKey[RouterId]]:
        self._directory.update(id, view)
        return super().update(id, view)

    def validate(self, owner: str, contribution: RouterContribution) -> None:
        fields = {
            "rules": RouterRule,
            "addresses": IpInterface,
            "qos": AddressQos,
            "proxied": IPv6Address,
        }
        validate_contribution(owner, contribution, RouterContribution, fields)
