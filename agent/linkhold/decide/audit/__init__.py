"""The audit of TCP connections: what keepalive does for each, what each is, and the sentence. Pure.

Sources: tcp_keepalive_timer and inet_sk_diag_fill of Linux 6.1 for verdicts; for kinds the
registered ports (IANA), and the names that PyTorch, Gloo and NCCL give their threads.
"""

from linkhold.decide.audit.kinds import Facts, kind, stays_here
from linkhold.decide.audit.report import Audited, Summary, audited, sentence, summary
from linkhold.decide.audit.verdicts import limit_s, timer_name, verdict

__all__ = [
    "Audited",
    "Facts",
    "Summary",
    "audited",
    "kind",
    "limit_s",
    "sentence",
    "stays_here",
    "summary",
    "timer_name",
    "verdict",
]
