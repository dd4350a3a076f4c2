"""``netfw-dhcp-agent``: serves DHCP on the networks that are assigned to this host."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from netfw.cli.agent_main import Program
from netfw.cli.dhcp_parts import PROGRAM, DhcpParts, dhcp_groups


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent; 0 stopped or converged, 1 not converged in time or ended because a process
    died after which it is to end, 2 wrongly configured."""
    program = Program(
        name=PROGRAM,
        description="The DHCP agent.",
        groups=dhcp_groups,
        parts=DhcpParts,
    )
    return program.main(argv)


if __name__ == "__main__":
    sys.exit(main())
