"""Folders of the backends that ship with the program.

They run in environments of their own and import nothing of ours.
"""
