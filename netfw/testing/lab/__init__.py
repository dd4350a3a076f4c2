"""Several hosts with their own Open vSwitch, on one machine, in namespaces.

From the outside in:

``sandbox``, ``launcher``
    namespaces around a whole command, which hide the machine and clean up by themselves
``lab``, ``fabric``, ``host``, ``instance``
    the contents: ``Lab(hosts=2)`` and everything that can be reached from it
``namespaces``, ``openvswitch``, ``ping``
    their parts: commands and functions in namespaces, a private switch, pings
``agent``, ``services``
    private processes for tests: agents, servers, databases, a broker
``persistent``, ``supervisor``, ``registry``, ``topology``
    labs that stay up between commands, for ``netfw lab``
``prerequisites``
    messages about what a machine lacks
"""
