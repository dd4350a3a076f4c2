"""State sources: resources for agents, from memory, a file or a server."""
