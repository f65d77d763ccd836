"""The generated blocks of README and docs: made from the code, compared by tests.

``.venv/bin/python tests/support/readme.py`` writes them anew; with ``--figures`` also the figures,
all and those that the README quotes, from what ``make bench`` and ``make bench-lab`` left in
build/bench.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from linkhold.config import readme_table
from linkhold.wire import CATALOGUE, COMMON, FIELDS

ROOT = Path(__file__).parents[2]
PAGES = {
    "config": ROOT / "docs/configuration.md",
    "events": ROOT / "docs/events.md",
    "figures": ROOT / "README.md",
    "all-figures": ROOT / "docs/figures.md",
}
"""Where each generated block stands."""


def block(name: str, text: str) -> str:
    """Return ``text`` between the markers called ``name``."""
    return f"<!-- {name}:begin -->\n{text.strip()}\n<!-- {name}:end -->"


def events_block() -> str:
    """Return the catalogue of event types as a table."""
    rows = ["| type | meaning | data |", "| --- | --- | --- |"]
    for name, kind in CATALOGUE.items():
        fields = ", ".join(f"`{field}`" for field in kind.fields) or "-"
        rows.append(f"| `{name}` | {kind.meaning} | {fields} |")
    common = "; ".join(f"`{name}` ({meaning})" for name, meaning in COMMON.items())
    fields = "; ".join(f"`{name}`: {meaning}" for name, meaning in FIELDS.items())
    notes = ["", f"{fields[0].upper()}{fields[1:]}.", "", f"Any event may also carry {common}."]
    return block("events", "\n".join([*rows, *notes]))


def config_block() -> str:
    """Return the table of configuration keys."""
    table = readme_table()
    return table.strip() if "config:begin" in table else block("config", table)


FIGURES = {
    "latency": (
        "bare netlink reader p50",
        "ip monitor link p50",
        "state file p50",
        "state file p99",
        "leg A subscriber p50",
        "leg A subscriber p99",
        "fleet subscriber p50",
        "fleet subscriber p99",
    ),
    "step": ("empty method", "step, connected"),
    "idle": (
        "agent CPU per minute",
        "agent wake-ups per minute",
        "agent PSS",
        "agent, fleet connected CPU per minute",
        "agent, fleet connected PSS",
        "broker PSS",
    ),
    "storm": (
        "2500 veths: state right after",
        "2500 veths: agent CPU",
        "3000 flips: state right after",
        "4000 flips while stopped: state right after",
    ),
    "start": ("exec to first state, median of 10",),
}
BOND_FIGURES = ("live NIC into", "  longest wait", "cable pulled", "switch dead", "fail-back")
"""What is shown of each bench; of the one with bonds, how its rows begin."""
QUOTED = (
    "state file p",
    "leg A subscriber p99",
    "fleet subscriber p99",
    "step, connected",
    "agent CPU per minute",
    "agent PSS",
    "live NIC into the bond, IPv4",
    "  longest wait of a TCP echo, IPv4",
    "cable pulled, worst of 2: linkhold |",
    "cable pulled, worst of 2: miimon",
    "switch dead for 6 s, link up, worst of 2: linkhold",
    "switch dead for 6 s, link up, worst of 2: miimon",
)
"""How the rows begin that the README has."""


def figures_blocks() -> dict[str, str]:
    """Return tables of what is in build/bench, with the machine: all rows, and those quoted."""
    machines, rows = set(), []
    for name, wanted in FIGURES.items():
        bench = json.loads((ROOT / "build/bench" / f"{name}.json").read_text())
        machines.add(re.sub(r", load.*", "", bench["machine"]))
        rows += [_figure(row) for row in bench["rows"] if row["what"] in wanted]
    bonds = json.loads((ROOT / "build/bench/bonds.json").read_text())
    machines.add(re.sub(r", load.*", "", bonds["machine"]))
    rows += [_figure(row) for row in bonds["rows"] if row["what"].startswith(BOND_FIGURES)]
    head = [
        f"Read by `make bench` and `make bench-lab` on: {'; '.join(sorted(machines))}.",
        "",
        "| what | value | reference | ratio | aim |",
        "| --- | --- | --- | --- | --- |",
    ]
    quoted = [row for row in rows if row.removeprefix("| ").startswith(QUOTED)]
    return {
        "figures": block("figures", "\n".join([*head, *quoted])),
        "all-figures": block("all-figures", "\n".join([*head, *rows])),
    }


def _figure(row: dict[str, Any]) -> str:
    reference = "" if row["reference"] is None else f"{row['reference']:.4g}"
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
    aim = "" if row["target"] is None else f"{row['target']}{'' if row['ok'] else ' (missed)'}"
    value = f"{row['value']:.4g} {row['unit']}".strip()
    return f"| {row['what']} | {value} | {reference} | {ratio} | {aim} |"


def current(name: str) -> str:
    """Return the block called ``name`` as it stands on its page."""
    found = re.search(
        rf"<!-- {name}:begin -->.*?<!-- {name}:end -->", PAGES[name].read_text(), re.DOTALL
    )
    assert found, f"{PAGES[name]} has no block {name}"
    return found[0]


def main() -> int:
    """Write the generated blocks into their pages."""
    blocks = {"events": events_block(), "config": config_block()}
    if "--figures" in sys.argv:
        blocks |= figures_blocks()
    for name, wanted in blocks.items():
        page = PAGES[name]
        page.write_text(page.read_text().replace(current(name), wanted))
        print(f"written: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
