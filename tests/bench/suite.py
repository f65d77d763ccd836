"""Runs benches by name, writes ``build/bench/NAME.json`` and prints one table."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bench.rig import Impossible
from bench.rows import Row, machine

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = (
    "latency",
    "idle",
    "step",
    "agreement",
    "storm",
    "start",
    "probe_load",
    "keepalive",
    "kernel_log",
    "paths",
    "power",
    "retries",
)
LAB = ("bonds", "interruptions", "relay", "service")
"""Benches that take minutes, in the kernel lab or with many jobs: they run when they are named."""
OUTPUT = Path(__file__).resolve().parent.parent.parent / "build" / "bench"
HEAD = ("", "value", "unit", "reference", "ratio", "target", "")


def main(argv: Sequence[str]) -> int:
    """Run the benches that are asked for; 1 when one failed, or missed with ``--strict``."""
    asked = _parse(argv)
    lines: list[tuple[str, ...]] = []
    failed: list[str] = []
    missed = 0
    for name in asked.names or NAMES:
        print(f"bench {name} ...", file=sys.stderr, flush=True)
        before = machine()  # with the load that others make, not the bench
        try:
            rows = importlib.import_module(f"bench.{name}").run(quick=asked.quick)
        except Impossible as reason:
            lines.append((f"{name}: skipped: {reason}",))
            continue
        except (AssertionError, OSError) as error:
            failed.append(name)
            lines.append((f"{name}: FAILED: {error}",))
            continue
        _write(name, before, rows)
        missed += sum(one.ok is False for one in rows)
        lines += [(f"{name} ({before})",), *map(_cells, rows)]
    print(_table(lines))
    print(f"\n{missed} targets MISSED" if missed else "\nno target missed")
    return int(bool(failed) or (asked.strict and missed > 0))


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of {', '.join((*NAMES, *LAB))}"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter, for a first look")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a target is missed")
    asked = parser.parse_args(argv)
    unknown = sorted(set(asked.names) - {*NAMES, *LAB})
    if unknown:
        parser.error(f"no such bench: {', '.join(unknown)} (there are {', '.join((*NAMES, *LAB))})")
    return asked


def _write(name: str, where: str, rows: Sequence[Row]) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    document = {"name": name, "machine": where, "rows": [asdict(one) for one in rows]}
    (OUTPUT / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


def _cells(one: Row) -> tuple[str, ...]:
    verdict = {None: "", True: "ok", False: "MISSED"}[one.ok]
    numbers = [_number(value) for value in (one.value, one.reference, one.ratio)]
    return ("  " + one.what, numbers[0], one.unit, *numbers[1:], one.target or "", verdict)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.10g}"


def _table(lines: Sequence[tuple[str, ...]]) -> str:
    rows = [HEAD, *lines]
    whole = [cells for cells in rows if len(cells) == len(HEAD)]
    widths = [max(len(cells[column]) for cells in whole) for column in range(len(HEAD))]
    return "\n".join(_line(cells, widths) for cells in rows)


def _line(cells: tuple[str, ...], widths: Sequence[int]) -> str:
    if len(cells) != len(widths):
        return "\n" + cells[0]
    what, value, unit, reference, ratio, target, verdict = (
        f"{cell:{'>' if column in {1, 3, 4} else '<'}{width}}"
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return f"{what}  {value} {unit}  {reference}  {ratio}  {target}  {verdict}".rstrip()
