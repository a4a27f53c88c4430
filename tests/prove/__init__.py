"""The long runs: what must hold a thousand times, on real processes. `make prove`."""
