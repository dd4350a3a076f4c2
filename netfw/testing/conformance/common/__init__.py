"""Promises that all host drivers share, and tools of the suites."""
