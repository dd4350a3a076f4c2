"""Diagnosis of a host: its agents' status files, and checks."""
