"""What a browser would make of a page, as far as a parser can tell."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = frozenset({"meta", "br", "rect", "line", "path"})
FETCHING = frozenset({"src", "href", "action", "poster", "data", "srcset", "style", "background"})


class Parsed(HTMLParser):
    """A page: its elements with their attributes, its text, and whether all tags are closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the begin of an element."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID or self._is_open(tag):
            self._open.append(tag)

    def _is_open(self, tag: str) -> bool:
        text = self.get_starttag_text() or ""
        return tag not in {"meta", "br"} and not text.endswith("/>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an element without content."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        """Take the end of an element."""
        assert self._open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        """Take text."""
        self.text += data

    @property
    def names(self) -> set[str]:
        """The names of all elements."""
        return {name for name, _ in self.elements}

    @property
    def ids(self) -> list[str]:
        """The ids of all elements."""
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]

    @property
    def fetched(self) -> list[str]:
        """What a browser would fetch: every address outside of the page itself."""
        return [
            value
            for _, attributes in self.elements
            for name, value in attributes.items()
            if name.rpartition(":")[2] in FETCHING and not value.startswith("#")
        ]
