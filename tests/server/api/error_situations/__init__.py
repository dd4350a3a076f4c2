"""Situations that the API refuses, by the type of the error that clients get."""
