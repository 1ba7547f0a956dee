"""Users' own files as tables: columns found by role, values read, and rows checked."""
