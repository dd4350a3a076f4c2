"""netfw: virtual networking in Python, driver by driver.

Importing this package loads nothing else: choose what you need from ``netfw.model``,
``netfw.drivers``, ``netfw.flows`` and the toolboxes ``netfw.linux`` and ``netfw.ovs``.
"""
