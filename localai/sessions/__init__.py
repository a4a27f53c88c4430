"""Sessions of the pages, as far as rows know of them."""
