"""Allocation of addresses, segment ids, MACs and quotas."""
