"""Choice of agents, assignments, failure detection, rescheduling."""
