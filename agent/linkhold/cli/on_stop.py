"""Whether the end of linkhold.service shall put the host back, as ``restore_on_stop`` asks.

``ExecStopPost=`` also runs at a restart, after a crash and at a shutdown, and no variable of
systemd.exec(5) tells them apart. The job does: a stop has one of type ``stop``, an upgrade one of
type ``restart``, a crash none; and while the machine goes down the manager says ``stopping``.
"""

from __future__ import annotations

from linkhold import config
from linkhold.children import run
from linkhold.model import ConfigError, Unavailable

SYSTEMCTL_S = 10.0
UNIT = "linkhold.service"


def why_nothing_is_restored() -> str:
    """Return in words why this end of the service leaves the host as it is, else nothing."""
    try:
        if not config.load(None).restore_on_stop:
            return "the host's settings stay: restore_on_stop is false"
    except ConfigError as error:
        return f"the host's settings stay: {error.mistakes[0]}"
    try:
        return "" if _is_a_stop() else "the host's settings stay: this is no stop by a person"
    except Unavailable as error:
        return f"the host's settings stay: {error}"


def _is_a_stop() -> bool:
    """Ask the manager; raises :class:`Unavailable` when it does not answer."""
    state = run(["systemctl", "is-system-running"], timeout_s=SYSTEMCTL_S).last_line
    return state != "stopping" and _job_type() == "stop"


def _job_type() -> str:
    """Return the type of the job on our unit (``stop``, ``restart``), empty without one."""
    listed = run(["systemctl", "list-jobs", "--plain", "--no-legend", UNIT], timeout_s=SYSTEMCTL_S)
    words = listed.last_line.split()  # number, unit, type, state
    return words[2] if len(words) == 4 and words[1] == UNIT else ""  # noqa: PLR2004 - see above
