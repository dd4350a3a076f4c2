"""Configuration of pytest: the tests inside the samples run in separate environments."""

collect_ignore = ["vendor_driver", "api_extension", "dhcp_driver"]
