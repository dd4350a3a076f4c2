"""Attributes that operators can have or leave out: port security, QoS, DNS."""
