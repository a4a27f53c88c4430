"""How a browser signs in with the admin key, and what it shows afterwards."""
