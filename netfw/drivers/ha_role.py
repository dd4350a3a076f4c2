"""HaRole: which of several equal routers one is."""

from __future__ import annotations

import enum


class HaRole(enum.StrEnum):
    """Which of several equal routers this one is."""

    ACTIVE = "active"
    STANDBY = "standby"
    FAULT = "fault"
