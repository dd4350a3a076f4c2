"""The metadata agent."""
