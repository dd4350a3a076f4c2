"""Limits of what is parsed of a message between agents and server."""

from typing import Final

REQUEST_SIZE: Final = 4 << 20
"""Bytes of a request, notification or error: 20 times the reports that an agent sends at once."""
REQUEST_VALUES: Final = 250_000
"""Values of JSON in it; a value becomes up to 150 bytes of memory."""
ANSWER_SIZE: Final = 64 << 20
ANSWER_VALUES: Final = 1_000_000
"""Those of an answer, which may be one large resource; ``max_message_size`` is the lower limit as a
rule."""
