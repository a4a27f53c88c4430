"""What the database says when somebody scrapes."""
