"""What happened to tables and views: described while it happens, compared and rolled back later."""
