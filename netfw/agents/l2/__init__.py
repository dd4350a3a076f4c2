"""The L2 agent: wires the ports of this host to their networks."""
