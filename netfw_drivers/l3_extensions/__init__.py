"""Extensions of the L3 agent."""
