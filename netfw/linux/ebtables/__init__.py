"""ebtables: chains for the frames of Linux bridges; read, compared, restored at once."""

from netfw.linux.ebtables.chains import FoundChain, FrameChain, FrameRule
from netfw.linux.ebtables.tables import Ebtables

__all__ = ["Ebtables", "FoundChain", "FrameChain", "FrameRule"]
