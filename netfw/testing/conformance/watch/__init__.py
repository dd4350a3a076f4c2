"""Observation of the process and the machine around every call of a driver under test."""
