"""What changes the host. Each effect is read back; each remembers how to undo it."""
