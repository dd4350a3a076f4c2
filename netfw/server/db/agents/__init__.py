"""Rows about agents: heartbeats, assignments, status reports."""
