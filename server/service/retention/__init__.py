"""The server's side of expiry, time to live, tags and statistics."""
