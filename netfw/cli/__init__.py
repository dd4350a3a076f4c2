"""Console scripts: the only places where everything meets."""
