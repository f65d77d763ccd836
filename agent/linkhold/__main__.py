"""The command ``linkhold``, also as ``python -m linkhold``.

Nothing is imported here before :func:`main` runs: Ctrl-C ends a command quietly from its first
moment on, while its modules are still being loaded.
"""

import sys

EX_INTERRUPTED = 130


def main() -> int:
    """Load the command line, run it and return the exit code of the process."""
    try:
        from linkhold.cli import main as run  # noqa: PLC0415 - this is what takes the time

        return run()
    except KeyboardInterrupt:
        return EX_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
