"""Figures against the raw tools, as ratios measured in one run."""
