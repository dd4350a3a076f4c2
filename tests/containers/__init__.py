"""The compose file of packaging/containers, run by podman; see `make containers`."""
