"""Processes: commands that end, and programs that are kept running."""
