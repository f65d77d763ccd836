"""``python -m linkhold`` is the command ``linkhold``."""

import sys

from linkhold.cli import main

if __name__ == "__main__":
    sys.exit(main())
