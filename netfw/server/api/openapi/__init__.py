"""The OpenAPI document of a server, from the declarations of its resources."""

from netfw.server.api.openapi.document import openapi_document

__all__ = ["openapi_document"]
