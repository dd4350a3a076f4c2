"""Mechanism drivers that were written for Neutron, through its library neutron-lib."""
