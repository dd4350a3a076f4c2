"""HTTP as netfw serves it: cheroot, with bounds on what clients can make a process hold.

What is answered is the business of the WSGI application; in which words a request is refused that
never reaches it, is told by whoever makes the server.

``server``
    the server, on a socket that listens already
``listening``
    such sockets
``connection``, ``incoming``, ``chunked``
    reading a request within its size and its time
``request_head``, ``request_headers``
    understanding it in one way, or not at all
``refusal``
    saying no
"""
