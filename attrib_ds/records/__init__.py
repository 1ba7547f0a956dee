"""Tables, JSON pages and files to Arrow and back."""
