"""Reports of the promises that the drivers of an installed package keep and break."""
