"""No parser is forgotten: every module that reads bytes is named by a target, or says why not."""

from __future__ import annotations

import re
from pathlib import Path

from fuzz import table

SOURCE = Path(__file__).parents[2] / "agent/linkhold"
READS = re.compile(
    r"json\.loads?\(|load_json\(|\.unpack(?:_from)?\(|iter_unpack|yaml\.(?:compose|load|safe_load)"
    r"|from_bytes|read_bytes\(|read_text\(|\.recv(?:from|msg)?\(|literal_eval|pickle\.loads?"
    r"|sqlite3\.connect|os\.read\(|os\.pread\(|readline\(|read_kept\(|file\.read\(|urlsplit\("
    r"|fromhex\(|torch\.load|np\.load"
)
OWN = "what linkhold itself made in the same process or transaction"
KERNEL = "a number of one file of /proc or /sys, of which any other text is caught"
WAKE = "bytes that only wake a loop up"
OTHERS = {
    "actuators/announce.py": KERNEL,
    "actuators/boot.py": OWN,
    "actuators/cover.py": KERNEL,
    "actuators/guard.py": "the journal's own reader, and a file that is compared only",
    "actuators/perform.py": "what the journal of a change says; read and refused by journal.py",
    "actuators/remake.py": "a file that is compared only",
    "actuators/transaction.py": "a profile that is kept as text, to be put back",
    "cli/arguments.py": "the next line of a file; who asked for it reads it",
    "cli/bond_test.py": KERNEL,
    "cli/diagnose_child.py": "the agent's own question to its child",
    "client/boot.py": "a text that is compared only",
    "client/data/randomness.py": "pickles of our own worker's queue, which is a pipe of our own",
    "client/data/worker.py": OWN,
    "client/generators.py": "a word in its text",
    "client/telling.py": "one word of the agent's answer, of a bounded size",
    "client/local_files.py": "files that are copied and never read as anything",
    "client/storage.py": "URLs that the job itself names",
    "daemon/far_diagnosis.py": "our own child's answer, of a bounded size",
    "daemon/host.py": "the machine id, of which any text will do",
    "daemon/locks.py": "struct ucred of the kernel; a command line that is shown only",
    "daemon/metrics.py": OWN,
    "decide/training/marks.py": "a text that is looked for",
    "decide/probing/sight.py": "a MAC of the kernel",
    "door.py": "struct ucred and groups of the kernel",
    "fleet_view/watch.py": WAKE,
    "frames/checksum.py": "any bytes are summed up",
    "frames/filters.py": "addresses of the configuration",
    "install/files.py": "files of our own package",
    "install/later.py": OWN,
    "install/steps.py": "a file that is compared only",
    "install/venv.py": "our own wheel, which is hashed",
    "legs/broker.py": KERNEL,
    "legs/fleet.py": WAKE,
    "relay/feed.py": WAKE,
    "sensors/ethtool.py": "structs that an ioctl fills in, of the size that we gave",
    "sensors/folder.py": "struct inotify_event, which the kernel alone writes",
    "sensors/port_counters.py": KERNEL,
    "sensors/reach/ears.py": "frames that are counted",
    "survey/gateway.py": "a struct that an ioctl fills in; frames/neighbours.py reads the rest",
    "survey/suspects.py": KERNEL,
}


def modules() -> dict[str, str]:
    """Return every module that reads bytes, with its text."""
    texts = {
        str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8")
        for path in sorted(SOURCE.rglob("*.py"))
    }
    return {name: text for name, text in texts.items() if READS.search(text)}


def test_every_module_that_reads_bytes_has_a_target_or_a_reason() -> None:
    """A new parser is named by a target, or stands on the list of others with the reason."""
    missing = set(modules()) - table.reads() - set(OTHERS)
    assert not missing


def test_no_name_in_the_table_is_stale() -> None:
    """Targets and the list name modules that there are, the list only such as read."""
    there = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")}
    assert not table.reads() - there
    assert not set(OTHERS) - set(modules())
    assert not set(OTHERS) & table.reads()


def test_names_are_told_apart() -> None:
    """Each target has a name of its own."""
    assert len(set(table.NAMES)) == len(table.NAMES)
