"""What somebody may do: the rules of the declarations, and those with which operators replace them.

rules       the rules by name, as oslo.policy has them, and the operator's file
decision    what a rule is for one requester: yes, no, or a question about the target
target      what rules can ask of the resource and of those it belongs to
enforcement the :class:`~netfw.server.api.auth_protocols.Policy` of the API
"""
