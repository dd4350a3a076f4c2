"""What vendors get to prove a driver: the lab, the conformance suites, fakes."""
