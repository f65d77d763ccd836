"""Pure decisions: no clock, no socket, no logger, no randomness."""
