"""``make fuzz``: each parser for a while, guided by what its code covers where atheris is there.

    make fuzz                                   every parser, 30 s each
    make fuzz ARGS="--seconds 300 cmd/replay"   those with these words in their names

What is found is written to build/fuzz/found/ and said at once; the exit code is then 1. What was
learned stays in build/fuzz/, so that the next run goes on from there.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
import traceback
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.target import Target

BUILD = ROOT / "build/fuzz"
FOUND = BUILD / "found"
MOST_INPUT_BYTES = 1 << 14
HANG_S = 20
MEMORY_MB = 2048
NOISE = ("INFO: ", "WARNING: Failed to find", "stat::", "#")
"""Lines of atheris and libFuzzer that would push out the traceback."""
START_S = 120
"""To import and instrument, on a busy machine."""

try:
    import atheris
except ImportError:  # no wheel for this Python or machine
    atheris = None


def main() -> int:
    """Run each wanted target in a process of its own; return the exit code."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30, help="for each parser (30)")
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", help="parsers with one of these in their names")
    args = parser.parse_args()
    if args.one:
        return one(args.one, args.seconds)

    from fuzz import table  # not before: what is imported already is not instrumented

    if atheris is None:
        print("atheris is not installed here: changes are made at random, without coverage")
    wanted = [n for n in table.NAMES if not args.words or any(w in n for w in args.words)]
    if not wanted:
        print(f"no parser is called so; there are: {', '.join(table.NAMES)}")
        return 2
    return int(sum(run(name, args.seconds) for name in wanted) > 0)


def run(name: str, seconds: float) -> bool:
    """Try one parser and say how it went; return whether something was found."""
    command = [sys.executable, "-W", "error", __file__, "--one", name, "--seconds", str(seconds)]
    began_s = time.monotonic()
    done = subprocess.run(
        command, check=False, capture_output=True, timeout=seconds * 2 + START_S, errors="replace",
        text=True, cwd=ROOT,
    )  # fmt: skip
    text = done.stdout + done.stderr
    runs = re.findall(r"(?:#|Done )(\d+)", text)
    print(
        f"{name}: {runs[-1] if runs else 0} inputs in {time.monotonic() - began_s:.0f} s",
        flush=True,
    )
    if done.returncode:
        told = [line for line in text.splitlines() if not line.startswith(NOISE)]
        print(*("    " + line for line in told[-40:]), sep="\n", flush=True)
    return done.returncode != 0


def one(name: str, seconds: float) -> int:
    """Try one parser in this process."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    corpus = BUILD / slug
    for folder in (corpus, FOUND):
        folder.mkdir(parents=True, exist_ok=True)
    if atheris is None:
        return at_random(name, slug, seconds)
    with atheris.instrument_imports(include=["linkhold"]):
        from fuzz import scratch, table
    with scratch.folder() as place:
        target = table.find(name, place)
        seed(corpus, target)
        limits = (f"-max_total_time={int(seconds)}", f"-max_len={MOST_INPUT_BYTES}",
                  f"-timeout={HANG_S}", f"-rss_limit_mb={MEMORY_MB}",
                  f"-artifact_prefix={FOUND}/{slug}-", "-print_final_stats=1")  # fmt: skip
        atheris.Setup([name, *limits, str(corpus)], tried(target), custom_mutator=mutator(target))
        atheris.Fuzz()
    return 0


def seed(corpus: Path, target: Target) -> None:
    """Put the valid samples among what was learned."""
    for number, sample in enumerate(target.samples()):
        (corpus / f"sample-{number}").write_bytes(sample)


def tried(target: Target) -> Callable[[bytes], None]:
    """Return what is called with each input."""
    from fuzz.target import check

    def call(data: bytes) -> None:
        check(target, data)

    return call


def mutator(target: Target) -> Callable[[bytes, int, int], bytes]:
    """Return what makes new inputs: half by our own knowledge of formats, half by libFuzzer's."""
    from fuzz.mutate import mutated

    samples = target.samples()

    def mutate(data: bytes, most: int, number: int) -> bytes:
        if number % 2:
            return bytes(atheris.Mutate(data, most))
        return mutated(data, samples, Random(number), as_json=target.json)[:most]

    return mutate


def at_random(name: str, slug: str, seconds: float) -> int:
    """Try changes of the samples until the time is over or something is found."""
    from fuzz import scratch, table
    from fuzz.mutate import mutated
    from fuzz.target import check

    end_s, number = time.monotonic() + seconds, 0
    with scratch.folder() as place:
        target = table.find(name, place)
        samples = target.samples()
        while time.monotonic() < end_s:
            number += 1
            random = Random(number)
            data = mutated(random.choice(samples), samples, random, as_json=target.json)
            try:
                check(target, data)
            except Exception:  # noqa: BLE001 - that is what is looked for
                (FOUND / f"{slug}-{number}").write_bytes(data)
                traceback.print_exc()
                print(f"#{number}: written to {FOUND / slug}-{number}")
                return 1
    print(f"Done {number}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
