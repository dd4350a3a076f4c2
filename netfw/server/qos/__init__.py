"""Resource handlers of QoS policies, and checks of what uses them."""
