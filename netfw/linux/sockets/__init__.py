"""ARP and ND frames, listeners, probes."""
