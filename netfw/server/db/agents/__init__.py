"""Rows about agents: heartbeats, assignments, excluded hosts, status reports."""
