"""The metadata agent: tells the metadata service which instance asks, and brings back its answer.

A proxy in the instance's network says from which address, and on which network or behind which
router, a request came.  That is one port, or nothing is passed on.

``asking``, ``outgoing``, ``announce``
    what a request says, what is made of it, and what the agent says of itself.  Pure
``directory``
    whose address it is, as the source of state says, kept for a moment
``upstream``, ``link``
    the metadata service
``relay``
    all of it together, as a WSGI application
``door``, ``liveness``
    the socket that it is served at, and the proof that it is
``agent``
    the work for :class:`~netfw.agents.common.loop.Loop`
"""
