"""Console scripts: the only code that imports all layers."""
