"""Policy: the rules of the resource declarations, which a policy file can override.

rules       the rules by name, and the policy file
evaluation  partial evaluation of a rule for one requester
target      attributes that a rule can read of a resource and of its parents
enforcement the :class:`~netfw.server.api.auth_interfaces.Authorizer` of the API
"""
