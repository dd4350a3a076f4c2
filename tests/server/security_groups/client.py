"""Requests about security groups, for the tests of groups and of rules."""

from __future__ import annotations

from typing import Any

from netfw.drivers.server.query import RequestContext
from netfw.server.core.server_context import ServerContext
from netfw.server.security_groups.groups import SecurityGroupsPlugin

ANNA = RequestContext(project_id="anna")
BERT = RequestContext(project_id="bert")
ADMIN = RequestContext(project_id="root", admin=True)

RULE = {
    "direction": "ingress",
    "ethertype": "IPv4",
    "protocol": "tcp",
    "port_range_min": 22,
    "port_range_max": 22,
    "remote_ip_prefix": None,
    "remote_group_id": None,
    "description": "",
}


def group(
    plugin: SecurityGroupsPlugin, who: RequestContext = ANNA, **options: Any
) -> dict[str, Any]:
    """Create a group."""
    body = {"project_id": who.project_id, "name": "web", "description": "", **options}
    return dict(plugin.create(who, "security_group", [body])[0])


def rule_body(security_group_id: str, who: RequestContext = ANNA, **options: Any) -> dict[str, Any]:
    """Return the body of a rule to be created."""
    owned = {"project_id": who.project_id, "security_group_id": security_group_id}
    return {**RULE, **owned, **options}


def rule(
    plugin: SecurityGroupsPlugin, id: str, who: RequestContext = ANNA, **options: Any
) -> dict[str, Any]:
    """Create a rule of the group *id*."""
    return dict(plugin.create(who, "security_group_rule", [rule_body(id, who, **options)])[0])


def used(context: ServerContext, project: str, resource: str) -> int:
    """Return how many resources are counted for a project."""
    usages = context.read(lambda view: view.quotas.of_project(project))
    return usages[resource].used if resource in usages else 0
