"""The relay's decisions: no clock, socket, file, logger or randomness.

A picture of thousands of nodes is changed in place, since copying it for every message would
cost the square of their number; each node in it is a frozen value.
"""
