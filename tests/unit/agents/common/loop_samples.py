"""Networks and ports of the loop's tests, and what was reported of them."""

from tests.unit.agents.l2.environment import NET, OTHER, OTHER_SEGMENT, SEGMENT, port

ONE, TWO, THREE = port(1, NET), port(2, NET), port(3, OTHER)
ALL = (NET, SEGMENT, OTHER, OTHER_SEGMENT, ONE, TWO, THREE)


def reported(env):
    """Return the last reported status of each port, by id."""
    return {report.ref.id: report.status for report in env.reports if hasattr(report, "ref")}
