"""RBAC policies."""
