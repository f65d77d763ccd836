"""Every call of ``linkhold`` on every page is one that its own parser takes."""

from __future__ import annotations

import pytest

from docs import calls, pages

TYPED = [
    line for block in pages.ALL_BLOCKS if block.kind == "shell" for line in pages.shell_lines(block)
]
CALLS = [(line, call) for line in TYPED for call in calls.calls_in(line.text)]
MENTIONED = [
    (span, call)
    for page in pages.PAGES
    for span in pages.spans(page)
    for call in calls.calls_in(span.text)
]


@pytest.mark.parametrize(("line", "call"), CALLS, ids=lambda one: getattr(one, "name", ""))
def test_every_call_that_is_typed_is_taken(line: pages.Line, call: str) -> None:
    """A call in a block has arguments that its command takes; a synopsis names no others."""
    assert calls.mistake(call) == "", line.name


@pytest.mark.parametrize(("span", "call"), MENTIONED, ids=lambda one: getattr(one, "name", ""))
def test_every_call_in_the_text_exists(span: pages.Line, call: str) -> None:
    """A call in the text names a command, a verb and options that exist."""
    assert calls.mention_mistake(call) == "", span.name
