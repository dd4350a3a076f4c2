"""Mechanism drivers without a backend: a logger, and the name l2population."""
