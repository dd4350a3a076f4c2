"""How many examples hypothesis tries where a test does not say: few, and the same every time, as
everybody runs these tests often; NETFW_LONG=1 has it try many, and others each time."""

import os

from hypothesis import settings

settings.register_profile("short", max_examples=30, deadline=None, derandomize=True)
settings.register_profile("long", max_examples=500, deadline=None)
settings.load_profile("long" if os.environ.get("NETFW_LONG") else "short")
