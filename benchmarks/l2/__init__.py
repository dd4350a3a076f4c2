"""The L2 agent."""
