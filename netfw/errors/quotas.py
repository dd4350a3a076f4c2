"""Refusals of quotas."""

from __future__ import annotations

from netfw.errors import NotFound


class TenantQuotaNotFound(NotFound):
    """The project has no limits of its own, or the requester may not see them."""

    resource = "quota"
