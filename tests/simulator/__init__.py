"""The engine's real steps in virtual time, over rows in memory; and the checker of histories."""
