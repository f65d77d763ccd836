"""What the pages have people type works as it stands, on a node of a fleet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from docs import pages, rules
from docs.calls import calls_in, mistake
from docs.rules import Where, rule_for
from docs.shown import lacking

if TYPE_CHECKING:
    from docs.pages import Line
    from docs.place import Host

LINES = [
    line for block in pages.ALL_BLOCKS if block.kind == "shell" for line in pages.shell_lines(block)
]
MENTIONED = [
    span
    for page in pages.PAGES
    for span in pages.spans(page)
    if span.text.startswith("linkhold ") and not mistake(span.text.removeprefix("linkhold "))
]
"""Calls in the text that are complete."""
HERE = list(
    {
        (line.text.removeprefix("sudo "), line.output): line
        for line in (*MENTIONED, *LINES)
        if (rule := rule_for(line.text)) and rule.where is Where.WORLD
    }.values()
)
"""What is tried on the node: each line once, on whatever pages it stands, in blocks or the text."""
GOES_ON_S = 3


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_every_line_has_a_rule(line: Line) -> None:
    """A line that people type is tried somewhere; what is listed says why, and what shows it."""
    rule = rule_for(line.text)

    assert rule is not None, f"{line.name}: say in tests/docs/rules.py where such a line is tried"
    if rule.where is Where.SYNOPSIS:  # then test_calls.py or test_python_blocks.py parses it
        assert calls_in(line.text) or "linkhold.client.torchrun" in line.text, "nothing parses it"
    if rule.where is Where.LISTED:
        assert rule.why
        assert (pages.ROOT / rule.instead).exists()


def test_every_rule_is_needed() -> None:
    """No rule stands for nothing, but those for kinds that any page may have."""
    used = {id(rule_for(line.text)) for line in (*LINES, *MENTIONED)}

    unused = [one for one in rules.RULES[:-1] if id(one) not in used]
    assert [one.pattern for one in unused if one.where not in rules.KINDS] == []


@pytest.mark.parametrize("line", HERE, ids=lambda line: line.name)
def test_it_works(host: Host, line: Line) -> None:
    """The line ends as its rule says, writes the file that it names and prints what is shown."""
    rule = rule_for(line.text)
    assert rule is not None
    typed = line.text
    if rules.GOES_ON.search(typed):
        typed = f"timeout --preserve-status -s INT {GOES_ON_S} {typed.removeprefix('sudo ')}"

    if rule.before:
        host.run(rule.before)
    done = host.run(typed, stdin=rule.stdin)

    said = done.stdout + done.stderr
    assert done.returncode in rule.codes, said
    assert rule.shows in said
    written = re.search(r"(?:-o|>) (\S+\.\w+)", typed)
    if written:
        assert host.path(str(host.home / written[1])).stat().st_size > 0
    else:
        assert said.strip()
    assert lacking(line.output, said) == [], said
