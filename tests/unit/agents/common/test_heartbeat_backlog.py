"""How far an agent is behind, in its heartbeats."""

from uuid import UUID

from netfw.agents.common.heartbeat import with_backlog
from netfw.agents.common.status import AgentStatus
from netfw.drivers.values.reports import Heartbeat
from netfw.model.agent import Agent
from netfw.model.values.ids import AgentId


def test_a_heartbeat_says_how_far_the_agent_is_behind() -> None:
    agent = Agent(id=AgentId(UUID(int=1)), agent_type="L3 agent", binary="netfw-l3-agent", host="h")
    status = AgentStatus(
        binary="netfw-l3-agent", host="h", lag=12.4, degraded={"a": "x"}, waiting={"b": "", "c": ""}
    )
    found = with_backlog(Heartbeat(agent=agent, counts={"routers": 3}), status)
    assert found.counts == {"routers": 3, "lag_seconds": 12, "degraded": 1, "waiting": 2}
