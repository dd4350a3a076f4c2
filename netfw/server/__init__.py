"""The server: the Networking API, what stands behind it, and what agents are told."""
