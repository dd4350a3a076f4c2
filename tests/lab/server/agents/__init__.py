"""Agents on real databases."""
