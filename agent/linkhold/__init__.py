"""linkhold keeps long training runs alive through network and power faults."""

__version__ = "0.1.0"
