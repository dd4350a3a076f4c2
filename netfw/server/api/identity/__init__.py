"""Authentication: one method per file; ``factory`` builds the configured ones.

A method reads a request and returns a
:class:`~netfw.server.api.identity.headers.ClaimedIdentity`, returns
:class:`~netfw.server.api.identity.headers.Unauthenticated`, or raises.  Methods are tried in the
configured order; if all return ``Unauthenticated``, the response says what each of them requires.
"""
