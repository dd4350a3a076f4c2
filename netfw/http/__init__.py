"""HTTP server: cheroot, with limits on what clients can make a process hold.

The WSGI application answers requests.  The creator of the server sets the format of errors for
requests that never reach it.

``server``
    the server, on a socket that listens already
``listen_sockets``
    such sockets
``connection``, ``request_buffer``
    reading a request within its limits of size and time
``unsent_responses``
    sending responses to clients that are slow to read them, without a thread for each
``event_streams``
    server-sent events, by one thread for all streams
``request_parser``
    parsing it strictly
``http_error``
    error responses
``unix_connection``
    client connections over a unix socket
"""
