"""``make soak``: a simulated day, then real processes under events; prints what grew.

The exit code is 1 when something grew or ended, with a line that names it.
"""

from __future__ import annotations

import argparse
import json
import random
import threading
import time
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bench.rows import machine
from soak import fleet, node, simulated
from soak.fleet import Fleet
from soak.growth import Look, Verdict, judge, table
from soak.node import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Self

OUTPUT = Path(__file__).resolve().parent.parent.parent / "build/soak.json"
MOST_LOOK_S = 5.0
LOOKS = 60
"""A short run looks more often: so many times at least."""


class Part(Protocol):
    """Something real that is worn out."""

    name: str

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def disturb(self, dice: random.Random) -> str:
        """Do one thing to it; return what."""

    def looks(self) -> Mapping[str, Look | None]:
        """Look at each of its processes."""

    def summary(self) -> str:
        """Return what it went through."""


PARTS: Mapping[str, tuple[Callable[[], Part], Callable[[], str]]] = {
    "node": (Node, node.missing),
    "fleet": (Fleet, fleet.missing),
}


@dataclass
class Worn:
    """What a part went through: the looks at each process, and how often what happened."""

    looks: dict[str, list[Look]] = field(default_factory=lambda: defaultdict(list))
    done: Counter[str] = field(default_factory=Counter)
    summary: str = ""
    error: str = ""


def main(argv: Sequence[str]) -> int:
    """Run what is asked for; return the exit code."""
    asked = _parse(argv)
    print(f"soak on {machine()}", flush=True)
    verdicts: list[Verdict] = []
    failed: list[str] = []
    seen: dict[str, list[Look]] = {}
    if "simulated" in asked.parts:
        verdicts += simulated.run(asked.hours)
    real = [name for name in asked.parts if name in PARTS]
    for name, worn in wear(real, asked.minutes * 60, asked.seed).items():
        print(f"{name}: {worn.summary}\n  " + _done(worn.done), flush=True)
        if worn.error:
            failed.append(f"{name}: {worn.error}")
        else:
            seen |= worn.looks
            verdicts += [one for part, looks in worn.looks.items() for one in judge(part, looks)]
    _write(asked, verdicts, seen)
    print(table(verdicts))
    failed += [f"{one.what}: +{one.rise:g} {one.unit}".strip() for one in verdicts if not one.ok]
    print("\n".join(["", *failed]) if failed else "\nnothing grew")
    return int(bool(failed))


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    names = ("simulated", *PARTS)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(names)}; all without")
    parser.add_argument("--minutes", type=float, default=30.0, help="of real time (30)")
    parser.add_argument("--hours", type=float, default=24.0, help="of simulated time (24)")
    parser.add_argument("--seed", type=int, default=1, help="another one is another order")
    asked = parser.parse_args(argv)
    asked.parts = asked.parts or list(names)
    if unknown := sorted(set(asked.parts) - set(names)):
        parser.error(f"no such part: {', '.join(unknown)} (there are {', '.join(names)})")
    return asked


def wear(names: Sequence[str], seconds: float, seed: int) -> dict[str, Worn]:
    """Wear parts out at the same time, each in a thread: a thread has one network namespace."""
    worn: dict[str, Worn] = {}
    threads = []
    for name in names:
        if reason := PARTS[name][1]():
            print(f"{name}: skipped: {reason}")
            continue
        worn[name] = Worn()
        thread = threading.Thread(target=_wear, args=(name, seconds, seed, worn[name]))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    return worn


def _wear(name: str, seconds: float, seed: int, worn: Worn) -> None:
    dice = random.Random(seed)
    try:
        with PARTS[name][0]() as part:
            _drive(part, seconds, dice, worn)
            worn.summary = part.summary()
    except Exception as error:  # noqa: BLE001 -- the other part's figures are told all the same
        worn.error = f"{type(error).__name__}: {error}"


def _drive(part: Part, seconds: float, dice: random.Random, worn: Worn) -> None:
    look_s = min(MOST_LOOK_S, seconds / LOOKS)
    began_s = time.monotonic()
    due_s = began_s
    while (now_s := time.monotonic()) < began_s + seconds:
        if now_s >= due_s:
            due_s = now_s + look_s
            for name, found in part.looks().items():
                if found is not None:
                    worn.looks[name].append(found)
        worn.done[part.disturb(dice)] += 1
        time.sleep(dice.random() * 0.5)


def _done(done: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(done.items()))


def _write(
    asked: argparse.Namespace, verdicts: Sequence[Verdict], seen: Mapping[str, Sequence[Look]]
) -> None:
    """Keep the table, and every look for whoever wants to see how something grew."""
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "machine": machine(),
        "minutes": asked.minutes,
        "rows": [asdict(one) for one in verdicts],
        "looks": {part: [asdict(one) for one in looks] for part, looks in seen.items()},
    }
    OUTPUT.write_text(json.dumps(document) + "\n")
