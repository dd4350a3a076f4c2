"""Diagnosis of a host: health of agents, reasons of resources, checks, and packet traces."""
