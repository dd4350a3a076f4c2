"""Configuration of the processes of a router, and options of the driver.  Pure."""
