"""OVSDB client: session, mirror, operations."""
