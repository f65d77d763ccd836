"""Keepalive: which values are wanted, what differs, and what is done about it. Pure."""
