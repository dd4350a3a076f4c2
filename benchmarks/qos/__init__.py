"""Limits of QoS policies."""
