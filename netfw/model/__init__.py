"""What a network is: the nouns of netfw as frozen values.  Touches nothing."""
