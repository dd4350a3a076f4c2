"""Several hosts with their own Open vSwitch, on one machine, in namespaces.

From the outside in:

``sandbox``, ``launcher``
    namespaces around a whole command, which hide the machine and clean up by themselves
``lab``, ``fabric``, ``host``, ``instance``
    what is in there: ``Lab(hosts=2)`` and everything that can be reached from it
``place``, ``openvswitch``, ``probe``
    what these are made of: running things in namespaces, a private switch, pings
``detached``, ``supervisor``, ``record``, ``topology``
    labs that stay up between commands, for ``netfw lab``
``obstacles``
    what a machine may lack, in sentences
"""
