"""The DHCP agent: serves DHCP, and metadata, on the networks that are assigned to its host."""
