"""The console script of the server."""
