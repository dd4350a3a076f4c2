"""Diagnosis: reasons for the status of resources and agents, and decisions about packets."""
