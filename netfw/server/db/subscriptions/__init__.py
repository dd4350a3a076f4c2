"""Subscriptions of hosts to topics."""
