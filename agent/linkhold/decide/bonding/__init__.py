"""What to do to get the bond that is wanted, and how to undo it. Pure: no effect, no clock."""
