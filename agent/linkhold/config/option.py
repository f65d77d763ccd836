"""How a key of the configuration is declared: its default, its meaning and its bounds."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def option(default: Any, help_: str, **bounds: Any) -> Any:
    """Return a dataclass field with its help text and its bounds.

    Bounds: ``least``/``most`` for numbers and for the length of a list or mapping, ``safe=True``
    for one MQTT topic level, ``item`` for what a list or mapping holds (a dataclass), ``keys``
    for the form of a mapping's names (without it ``interface``), ``text=True`` for text or a
    list of text that must be given, and for text of a certain form, or each text of a list,
    ``ip``, ``host``, ``interface``, ``member`` and ``path``. ``example`` is what the default
    file shows, ``more`` are further entries of a list there. ``duration=True``: seconds, written
    with a unit (``20m``), since the key's name has none. ``too_small``/``too_large`` say what
    a number out of bounds would mean; {} is the number and {seconds} a thousandth of it.
    """
    metadata = {"help": help_, **bounds}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)
