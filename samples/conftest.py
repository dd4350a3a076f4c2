"""Vendors' own tests run in environments of their own: see test_vendor_driver.py and others."""

collect_ignore = ["vendor_driver", "api_extension", "dhcp_driver"]
