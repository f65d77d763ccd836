"""Bytes of rtnetlink: framing, attributes, a socket. Standard library only, no decisions."""
