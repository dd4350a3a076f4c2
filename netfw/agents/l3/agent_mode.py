"""Modes of L3 agents: what their hosts run of routers.  Pure."""

from __future__ import annotations

import enum


class AgentMode(enum.StrEnum):
    """What a host runs of routers."""

    LEGACY = "legacy"
    """Whole routers; no part of distributed ones."""
    DVR = "dvr"
    """The local parts of distributed routers, and the floating IPs of the instances of this
    host."""
    DVR_SNAT = "dvr_snat"
    """The same, the central parts of distributed routers, and whole routers."""
    DVR_NO_EXTERNAL = "dvr_no_external"
    """The local parts of distributed routers; all floating IPs are at their central parts."""

    @property
    def runs_local_parts(self) -> bool:
        """Whether the host runs the local parts of distributed routers."""
        return self is not AgentMode.LEGACY

    @property
    def runs_central_parts(self) -> bool:
        """Whether the host runs the central parts of distributed routers."""
        return self is AgentMode.DVR_SNAT

    @property
    def runs_full_routers(self) -> bool:
        """Whether the host runs whole routers."""
        return self in (AgentMode.LEGACY, AgentMode.DVR_SNAT)

    @property
    def has_agent_gateways(self) -> bool:
        """Whether floating IPs of the instances of the host can be translated there."""
        return self in (AgentMode.DVR, AgentMode.DVR_SNAT)
