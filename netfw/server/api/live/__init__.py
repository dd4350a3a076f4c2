"""The live page: topology with status, lag and reasons, and a trace between two ports.

``page``
    the end points, and the stream of changes
``static_files``
    the files of the page, and the headers that confine it
``own_api``
    the API, read within the process as the requester sees it
``topology``
    what the page shows
``desired_trace``
    what should happen to a packet between two ports
"""
