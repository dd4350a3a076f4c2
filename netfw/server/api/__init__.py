"""The REST API: HTTP and JSON in front, plugins behind."""
