"""The server and its API."""
