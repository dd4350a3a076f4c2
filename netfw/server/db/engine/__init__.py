"""SQLAlchemy engines, prepared statements, error translation."""
