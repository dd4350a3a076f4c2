"""The vendor's own tests run in the vendor's own environment: see test_vendor_driver.py."""

collect_ignore = ["vendor_driver"]
