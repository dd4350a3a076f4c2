"""os-ken's messages and applications on netfw's connections, and netfw's flows on os-ken's."""

from netfw.ovs.osken.codec_patches import patch_codecs
from netfw.ovs.osken.datapath import Datapath, MessageRefused
from netfw.ovs.osken.datapath_connection import DatapathConnection
from netfw.ovs.osken.flow_messages import flow_of, make_flow_mod

__all__ = ["Datapath", "DatapathConnection", "MessageRefused", "flow_of", "make_flow_mod"]

patch_codecs()
