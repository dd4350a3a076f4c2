"""Agents as the server sees them: heartbeats, RPC handlers."""
