"""What a session of storms shows: live, as JSON, as a table, as a page."""
