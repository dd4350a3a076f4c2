"""Resource handlers of networks, subnets and ports."""
