"""In-memory drivers that keep the promises of their contracts, for tests of agents and server."""
