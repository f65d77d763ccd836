"""The generated blocks of the README: made from the code, compared by a test.

``.venv/bin/python tests/support/readme.py`` writes them anew.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from linkhold.config import readme_table
from linkhold.wire import CATALOGUE, COMMON, FIELDS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


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


def current(name: str) -> str:
    """Return the block called ``name`` as it stands in the README."""
    found = re.search(
        rf"<!-- {name}:begin -->.*?<!-- {name}:end -->", README.read_text(), re.DOTALL
    )
    assert found, f"README.md has no block {name}"
    return found[0]


def main() -> int:
    """Write the generated blocks into the README."""
    text = README.read_text()
    for name, wanted in (("events", events_block()), ("config", config_block())):
        text = text.replace(current(name), wanted)
    README.write_text(text)
    print(f"written: {README}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
