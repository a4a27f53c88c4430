"""Speed and memory, side by side with what they are compared with: `make bench`, docs/reference/bench.md."""
