"""The server: Networking API, plugins, database, and the state source of agents."""
