"""What a visit is and where it came from: rules that collection, loading, queries and importers share."""
