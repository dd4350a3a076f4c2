"""The contracts: what netfw promises to a driver, and a driver to netfw."""
