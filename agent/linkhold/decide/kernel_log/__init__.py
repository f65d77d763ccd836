"""What the kernel's log says of NICs: pure, one table per family of drivers.

Errs towards silence: a line that no rule knows is ``none``.
"""

from linkhold.decide.kernel_log.classify import classify, worth
from linkhold.decide.kernel_log.explain import explain
from linkhold.decide.kernel_log.formats import Entry, entries, message_of

__all__ = ["Entry", "classify", "entries", "explain", "message_of", "worth"]
