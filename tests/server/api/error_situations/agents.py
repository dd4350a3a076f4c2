"""Refusals of agents, of what is scheduled on them, and of quotas."""

from __future__ import annotations

from tests.server.api.environment import Reply
from tests.server.api.error_situations.cloud import NOWHERE, Cloud, situation

DHCP, L3, L2 = "DHCP agent", "L3 agent", "Open vSwitch agent"


def _give_network(cloud: Cloud, agent: str, network: str) -> Reply:
    return cloud.admin.post(f"agents/{agent}/dhcp-networks", {"network_id": network})


def _give_router(cloud: Cloud, agent: str, router: str) -> Reply:
    return cloud.admin.post(f"agents/{agent}/l3-routers", {"router_id": router})


@situation("AgentNotFound", 404)
def absent_agent(cloud: Cloud) -> Reply:
    return cloud.admin.get(f"agents/{NOWHERE}")


@situation("AgentNotFound", 404)
def networks_of_an_absent_agent(cloud: Cloud) -> Reply:
    return _give_network(cloud, NOWHERE, cloud.network())


@situation("NetworkNotFound", 404)
def agents_of_an_absent_network(cloud: Cloud) -> Reply:
    return cloud.admin.get(f"networks/{NOWHERE}/dhcp-agents")


@situation("InvalidDHCPAgent", 404)
def network_of_an_agent_of_another_type(cloud: Cloud) -> Reply:
    return _give_network(cloud, cloud.agent("a", L2), cloud.network())


@situation("InvalidDHCPAgent", 404)
def network_of_an_agent_that_is_switched_off(cloud: Cloud) -> Reply:
    agent = cloud.agent("a", DHCP)
    assert cloud.change("agents", agent, admin_state_up=False).status == 200
    return _give_network(cloud, agent, cloud.network())


@situation("NetworkHostedByDHCPAgent", 409)
def network_that_the_agent_has(cloud: Cloud) -> Reply:
    agent, network = cloud.agent("a", DHCP), cloud.network()
    assert _give_network(cloud, agent, network).status == 201
    return _give_network(cloud, agent, network)


@situation("NetworkNotHostedByDhcpAgent", 409)
def removal_of_a_network_from_another_agent(cloud: Cloud) -> Reply:
    agent = cloud.agent("a", DHCP)
    return cloud.admin.delete(f"agents/{agent}/dhcp-networks/{cloud.network()}")


@situation("InvalidL3Agent", 404)
def router_of_an_agent_of_another_type(cloud: Cloud) -> Reply:
    return _give_router(cloud, cloud.agent("a", DHCP), cloud.router())


@situation("RouterHostedByL3Agent", 409)
def router_of_another_agent(cloud: Cloud) -> Reply:
    router = cloud.router()
    assert _give_router(cloud, cloud.agent("a", L3), router).status == 201
    return _give_router(cloud, cloud.agent("b", L3), router)


@situation("RouterNotHostedByL3Agent", 409)
def removal_of_a_router_from_another_agent(cloud: Cloud) -> Reply:
    return cloud.admin.delete(f"agents/{cloud.agent('a', L3)}/l3-routers/{cloud.router()}")


@situation("RouterL3AgentMismatch", 409)
def distributed_router_of_a_legacy_agent(cloud: Cloud) -> Reply:
    router = cloud.make("router", distributed=True)["id"]
    return _give_router(cloud, cloud.agent("a", L3), router)


@situation("DVRL3CannotAssignToDvrAgent", 409)
def router_of_an_agent_without_central_parts(cloud: Cloud) -> Reply:
    return _give_router(cloud, cloud.agent("a", L3, agent_mode="dvr"), cloud.router())


@situation("RouterSchedulingFailed", 409)
def ha_router_with_all_its_agents(cloud: Cloud) -> Reply:
    router = cloud.make("router", ha=True)["id"]
    for host in "abc":
        given = _give_router(cloud, cloud.agent(host, L3), router)
        assert given.status == 201, given.data
    return _give_router(cloud, cloud.agent("d", L3), router)


@situation("TenantQuotaNotFound", 404)
def quota_that_was_never_set(cloud: Cloud) -> Reply:
    return cloud.admin.delete("quotas/nowhere")


@situation("HTTPBadRequest", 400)
def quota_of_what_is_not_counted(cloud: Cloud) -> Reply:
    return cloud.admin.put("quotas/alice", {"quota": {"unicorn": 1}})


@situation("HTTPBadRequest", 400)
def quota_below_the_use(cloud: Cloud) -> Reply:
    cloud.alice.network()
    return cloud.admin.put("quotas/alice", {"quota": {"network": 0}})


@situation("InvalidInput", 400)
def quota_that_is_no_number(cloud: Cloud) -> Reply:
    return cloud.admin.put("quotas/alice", {"quota": {"network": -7}})
