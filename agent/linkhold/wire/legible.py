"""Texts from outside as one line, for logs and terminals."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Return a text as one line without anything that a terminal acts on.

    Names in it are those of programs, files and interfaces, which users of the node choose: one
    with a line break would write a line of its own into the journal, at any priority.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
