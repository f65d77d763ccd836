"""Frames that ask for neighbours and answer them, for packet sockets. Standard library only.

What surveys, sensors, actuators and the guard process have in common; no decisions.
"""
