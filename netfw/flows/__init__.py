"""OpenFlow as data: fields, matches, actions, flows, tables and pipelines.

``from netfw import flows as of`` and write ``of.in_port(5) & of.vlan(7)``, or import the functions.
"""

# ruff: noqa: F403  each module lists its public names in __all__

from netfw.flows.action import *
from netfw.flows.arp import *
from netfw.flows.conntrack import *
from netfw.flows.field import *
from netfw.flows.flow import *
from netfw.flows.goto import *
from netfw.flows.learn import *
from netfw.flows.match import *
from netfw.flows.match_builders import *
from netfw.flows.match_text import *
from netfw.flows.pipeline import *
from netfw.flows.port_number import *
from netfw.flows.register import *
from netfw.flows.table import *
from netfw.flows.text import *
