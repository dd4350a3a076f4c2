"""A watched file as a state source: the agents are useful without any server.

``FileSource`` is the source; ``read_topology`` reads a file once, ``render_topology`` writes one.
The format is described in ``docs/file-source.md``.
"""

from netfw.state.file.dump import render_topology
from netfw.state.file.load import read_topology
from netfw.state.file.source import FileSource
from netfw.state.file.topology import Topology

__all__ = ["FileSource", "Topology", "read_topology", "render_topology"]
