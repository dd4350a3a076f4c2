"""Router firewalls in the API."""
