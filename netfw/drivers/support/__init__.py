"""Code that driver authors may use; no part of a contract."""
