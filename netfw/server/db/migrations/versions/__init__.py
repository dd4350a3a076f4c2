"""Steps between versions of the tables, each forward and back.  They never change once released."""
