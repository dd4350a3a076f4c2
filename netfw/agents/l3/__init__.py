"""The L3 agent."""
