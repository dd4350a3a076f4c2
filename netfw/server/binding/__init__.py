"""Port binding: mechanism drivers choose segment and VIF."""
