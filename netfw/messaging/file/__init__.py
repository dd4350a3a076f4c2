"""A watched file as a state source: the agents are useful without any server.

``FileSource`` is the source; ``read_topology`` reads a file once, ``render_topology`` writes one.
The format is described in ``docs/file-source.md``.
"""

from netfw.messaging.file.reading import read_topology
from netfw.messaging.file.rendering import render_topology
from netfw.messaging.file.source import FileSource
from netfw.messaging.file.topology import Topology

__all__ = ["FileSource", "Topology", "read_topology", "render_topology"]
