"""Early at boot: undo what a crash left unfinished, make again what no manager makes.

``python -m linkhold.actuators.boot``, run by linkhold-boot.service before any network manager.
Standard library only. What it prints goes to the journal.
"""

from __future__ import annotations

import sys

from linkhold.actuators.journal import Journal
from linkhold.actuators.remake import at_boot
from linkhold.model import LinkholdError

NOTICE, ERROR = "<5>", "<3>"
"""Priority prefixes that systemd takes from a service's lines (sd-daemon(3))."""


def main() -> int:
    """Do it; return 0 when everything worked or there was nothing to do, else 1."""
    try:
        problems = at_boot(Journal(), lambda text: print(f"{NOTICE}linkhold: {text}", flush=True))
    except (LinkholdError, OSError) as error:
        problems = [str(error)]
    for problem in problems:
        print(f"{ERROR}linkhold: {problem}", flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
