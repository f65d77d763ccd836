"""Where each line that a page has people type is tried, and what stands for it where it cannot be.

The first rule whose pattern is found in a line counts, so what is special stands first. A line
without a rule fails ``test_commands.py``: add a rule for its kind, not for the one line.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from docs.calls import SYNOPSIS


class Where(enum.Enum):
    """A place in which a line is tried."""

    SYNOPSIS = "it shows how to call and is not typed: the command's parser knows its options"
    WORLD = "typed as it stands, as root on a node of a fleet (world.py)"
    LAB = "typed as it stands, in a kernel of its own with two NICs (test_bond_commands.py)"
    SETUP = "typed with --dry-run, from a wheel of this checkout (test_setup_commands.py)"
    MAKE = "a target of the Makefile, whose commands exist (test_make.py)"
    CHECKOUT = "typed as it stands, in this checkout (test_checkout_commands.py)"
    PIP = "an index cannot be asked in a test: the extras are those of pyproject.toml"
    ANSIBLE = "the collection is built, and a play is read with its options (test_ansible_lines.py)"
    LISTED = "cannot be typed in a test; the rule says why, and what shows it instead"


@dataclass(frozen=True)
class Rule:
    """How lines of one kind are tried.

    ``codes`` are the exit codes that are right, ``shows`` must be found in what is printed,
    ``stdin`` is piped in, ``before`` is typed before it. ``why`` and ``instead``, a path, belong to
    what is listed.
    """

    pattern: str
    where: Where
    codes: tuple[int, ...] = (0,)
    shows: str = ""
    stdin: str = ""
    before: str = ""
    why: str = ""
    instead: str = ""


PAYLOAD = '{"kind": "nut-status", "topic_or_url": "nut/ups", "body": "OB DISCHRG LB"}\n'
JOURNAL = "journalctl|/var/log/kern.log"
SERVICE = "tests/lab/test_service.py"

RULES = (
    Rule(r"^(\S*bin/)?ansible", Where.ANSIBLE),
    Rule(
        r"\bmosquitto_(pub|sub)\b",
        Where.LISTED,
        why="mosquitto's clients are not needed for anything else",
        instead="tests/broker/test_acl.py",
    ),
    Rule(SYNOPSIS.pattern, Where.SYNOPSIS),
    Rule(r"\b(FILE|NODE|HOST)\b", Where.SYNOPSIS),
    Rule(r"^make ", Where.MAKE),
    Rule(r"^(\S*bin/)?pip install ", Where.PIP),
    Rule(r"\blinkhold setup --(system|remove)", Where.SETUP),
    Rule(r"^(sudo )?linkhold bond ", Where.LAB),
    Rule(r"^\S*\bpython (-m pytest .*)?tests/", Where.CHECKOUT),
    Rule(
        r"^(sudo )?(systemctl|reboot|networkctl|nmcli)\b",
        Where.LISTED,
        why="there is no systemd outside of the lab",
        instead=SERVICE,
    ),
    Rule(
        r"^(sudo )?apt(-get)? ",
        Where.LISTED,
        why="a test installs nothing on the machine",
        instead="tests/support/setup.sh",
    ),
    Rule(
        r"^install -",
        Where.LISTED,
        why="it is typed below a folder, and the fleet's broker of the rollout starts from there",
        instead="tests/support/rollout_fleet.py",
    ),
    # From here on: on a node of a fleet.
    Rule(r"\blinkhold diagnose --publish", Where.WORLD, codes=(69,), shows="nobody is subscribed"),
    Rule(r"\blinkhold diagnose", Where.WORLD, codes=(0, 1), shows="most likely in"),
    Rule(
        r"\blinkhold survive",
        Where.WORLD,
        codes=(0, 1),
        shows="rendezvous store gives up",
        before="linkhold keepalive restore",
    ),
    Rule(
        r"\blinkhold resume",
        Where.WORLD,
        shows="may go on",
        before='linkhold hold --for 1m --why "to end it"',
    ),
    Rule(r"\blinkhold explain payload", Where.WORLD, stdin=PAYLOAD, shows="low"),
    Rule(rf"({JOURNAL}).*|linkhold explain kernel-log", Where.WORLD),
    Rule(r"\blinkhold keepalive audit", Where.WORLD, shows="1 of 2 connections"),
    Rule(r"\blinkhold maintenance .*--end", Where.WORLD, shows="maintenance is over"),
    Rule(r"\blinkhold maintenance ", Where.WORLD, shows="maintenance is announced until"),
    Rule(r"\blinkhold (check|relay) --print-default", Where.WORLD, shows="brokers"),
    Rule(r"\blinkhold check", Where.WORLD, shows="configuration OK"),
    Rule(r"\blinkhold top", Where.WORLD, shows="gpu-r12-7"),
    Rule(r"\blinkhold (status|events|hold|restore|keepalive|relay|report)", Where.WORLD),
    Rule(r"^(openssl|mkdir|cp|chmod|install|sysctl|ip|cat|echo) ", Where.WORLD),
)

KINDS = (Where.SYNOPSIS, Where.PIP, Where.ANSIBLE, Where.LISTED)
"""Places for which rules are there before a page needs them."""
GOES_ON = re.compile(r"linkhold (relay|agent.*|events --follow.*)$")
"""Commands that go on until Ctrl-C."""


def rule_for(line: str) -> Rule | None:
    """Return the rule of a line, None where there is none."""
    return next((rule for rule in RULES if re.search(rule.pattern, line)), None)
