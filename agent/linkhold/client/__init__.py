"""What lives in the training process."""
