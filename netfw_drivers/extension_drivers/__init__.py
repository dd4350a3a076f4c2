"""Optional attributes: port security, QoS, DNS."""
