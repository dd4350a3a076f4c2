"""Resource schemas and validation of request bodies."""
