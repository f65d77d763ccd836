"""Files in the form of systemd and NetworkManager: sections, and copies of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a file, its lines as they were written (comments left out)."""

    name: str
    lines: tuple[str, ...] = ()

    def value(self, key: str) -> str:
        """Return the last value of ``key``, empty when it is not set."""
        found = ""
        for line in self.lines:
            name, _, value = line.partition("=")
            if name.strip() == key:
                found = value.strip()
        return found

    def without(self, *keys: str) -> Section:
        """Return the section without the lines that set one of ``keys``."""
        kept = tuple(line for line in self.lines if line.partition("=")[0].strip() not in keys)
        return Section(self.name, kept)

    def with_values(self, **values: str) -> Section:
        """Return the section with each key (underscores are hyphens) set once, at its end."""
        named = {key.replace("_", "-"): value for key, value in values.items()}
        rest = self.without(*named)
        return Section(self.name, (*rest.lines, *(f"{k}={v}" for k, v in named.items())))


@dataclass(frozen=True, slots=True)
class Profile:
    """The sections of a file, in order; a name may come twice (``[Address]``)."""

    sections: tuple[Section, ...] = field(default=())

    def first(self, name: str) -> Section:
        """Return the first section of that name, or an empty one."""
        return next((one for one in self.sections if one.name == name), Section(name))

    def text(self, head: str) -> str:
        """Return the file's text below a comment."""
        parts = [f"# {line}" for line in head.splitlines()]
        for section in self.sections:
            parts += ["", f"[{section.name}]", *section.lines]
        return "\n".join(parts) + "\n"


def parse(text: str) -> Profile:
    """Return the sections of ``text``; what stands before the first one is left out."""
    sections: list[Section] = []
    for raw in _joined(text):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and line.endswith("]"):
            sections.append(Section(line[1:-1]))
        elif sections:
            last = sections[-1]
            sections[-1] = Section(last.name, (*last.lines, line))
    return Profile(tuple(sections))


def _joined(text: str) -> list[str]:
    """A backslash at the end of a line continues it (systemd.syntax(7))."""
    return text.replace("\\\n", " ").splitlines()
