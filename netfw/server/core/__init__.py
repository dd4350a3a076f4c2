"""Foundation of the server: context, unit of work, resource handlers, and driver collections."""
