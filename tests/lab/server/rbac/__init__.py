"""RBAC policies on real databases."""
