"""What the agent keeps on disk: the state file and the outbox."""
