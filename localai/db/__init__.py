"""Transactions, connections and migrations."""
