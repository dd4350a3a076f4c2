"""``netfw-ovs-agent``: keeps the switch of this host as its source of state wants it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from netfw.cli.agent_main import Program
from netfw.cli.l2_parts import PROGRAM, L2Parts, l2_groups


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent; 0 stopped or converged, 1 not converged in time, 2 wrongly configured."""
    program = Program(
        name=PROGRAM,
        description="The L2 agent for Open vSwitch.",
        groups=l2_groups,
        parts=L2Parts,
    )
    return program.main(argv)


if __name__ == "__main__":
    sys.exit(main())
