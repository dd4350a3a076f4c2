"""Agents: the processes that configure hosts, as the server stores them."""

from __future__ import annotations

from datetime import datetime

from attrs import field, frozen
from attrs.validators import optional

from netfw.model.ids import AgentId
from netfw.model.json_document import JsonDocument
from netfw.model.text_validation import check_host, check_text, check_token
from netfw.model.validation import Validated, checked_by


@frozen(kw_only=True)
class Agent(Validated):
    """One agent on one host, with the time of its last heartbeat."""

    id: AgentId
    agent_type: str = field(validator=checked_by(check_text))
    """Its type as the API shows it: ``Open vSwitch agent``."""
    binary: str = field(validator=checked_by(check_token))
    host: str = field(validator=checked_by(check_host))
    topic: str = field(default="", validator=checked_by(check_token))
    description: str = field(default="", validator=checked_by(check_text))
    revision: int = 0
    admin_up: bool = True
    alive: bool = False
    availability_zone: str | None = field(default=None, validator=optional(checked_by(check_host)))
    configurations: JsonDocument = field(factory=JsonDocument)
    """Mappings, tunnel types, counts and other data that the agent reports of itself."""
    resources_synced: bool | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    heartbeat_at: datetime | None = None
