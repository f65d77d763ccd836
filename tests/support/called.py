"""What came of a call of linkhold in this process."""

from __future__ import annotations

Outcome = tuple[int, str, str]
"""Exit code, stdout and stderr."""
