"""Local IPs on a switch."""
