"""Tests on a kernel of their own; see docs/lab.md."""
