"""Who asks: each method in a file, ``configured`` puts together what the operator chose.

A method looks at a request and answers with a
:class:`~netfw.server.api.identity.headers.ClaimedIdentity`,
says that the request is not one of its kind (``None``), or raises.  Methods are tried in the
operator's order; when none knows who asks, the request is refused with what each of them wants.
"""
