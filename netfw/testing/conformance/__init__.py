"""What every driver must keep, as pytest classes for a vendor to subclass: one file per contract.

1. Every numbered promise and every ``:raises:`` of a contract has a test; a test counts them.
2. A test is skipped only for a capability that the driver does not declare.
3. The suites look at the machine through hooks that the vendor overrides, never through the driver
   alone: a driver is not its own witness.
4. The suites are themselves tested against drivers that break one promise each.
"""
