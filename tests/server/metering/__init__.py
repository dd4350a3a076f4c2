"""Tests of metering labels."""
