"""The command ``linkhold``, also as ``python -m linkhold``.

Nothing is imported here before :func:`main` runs: Ctrl-C ends a command quietly from its first
moment on, while its modules are still being loaded.
"""

import os
import sys

import linkhold

EX_INTERRUPTED = 130


def main() -> int:
    """Load the command line, run it and return the exit code of the process."""
    _stay_in_this_version()
    try:
        from linkhold.cli import main as run  # noqa: PLC0415 - this is what takes the time

        return run()
    except KeyboardInterrupt:
        return EX_INTERRUPTED


def _stay_in_this_version() -> None:
    """Have what is imported and started later come from the folder that this process began in.

    /opt/linkhold/current is a link that an upgrade turns to the next version while the service
    still runs: half of each version in one process, or a helper of the other, fits nothing.
    """
    sys.path[:] = map(os.path.realpath, sys.path)
    linkhold.__path__[:] = map(os.path.realpath, linkhold.__path__)
    folder, name = os.path.split(sys.executable)
    if folder:
        sys.executable = f"{os.path.realpath(folder)}/{name}"


if __name__ == "__main__":
    sys.exit(main())
