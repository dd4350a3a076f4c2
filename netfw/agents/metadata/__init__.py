"""The metadata agent: forwards metadata requests with the identity of the requesting instance.

A proxy in the instance's network adds the source address and the network or router of a request.
They identify one port; otherwise the request is refused.

``request_origin``, ``headers``, ``state_report``
    the origin of a request, the headers to forward, the agent's state report.  Pure
``instance_cache``
    the instance of an address, requested from the state source and cached
``upstream_pool``, ``upstream_connection``
    connections to the metadata service
``proxy_app``
    the proxy as a WSGI application
``unix_listener``, ``health_file``
    the socket that it listens on, and the health check
``agent``
    the work for :class:`~netfw.agents.common.loop.Loop`
"""
