"""QoS of ports: limits by meters of the switch, and DSCP marks."""
