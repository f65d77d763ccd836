"""The fleet as plain lines, for a pipe, a file or a terminal that cannot be drawn on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.fleet_view.screen import columns_of, row_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from linkhold.fleet_view.rows import Row

COLUMNS = 200


def listing(rows: Sequence[Row], now_s: float) -> Iterator[str]:
    """Yield a heading and a line for each row, in the order given."""
    columns = columns_of(rows, COLUMNS)
    yield "".join(name.upper().ljust(width) for name, width in columns).rstrip()
    for row in rows:
        yield "".join(text for text, _ in row_line(row, columns, now_s)).rstrip()
