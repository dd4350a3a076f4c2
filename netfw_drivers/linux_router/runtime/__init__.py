"""Observation and execution: the code that touches the machine."""
