"""Console scripts of the agents: options, components, main."""
