"""Values that attributes of resources consist of, and their checks."""
