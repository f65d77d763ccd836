"""Read-only looks at the host before its network is changed.

Each file reads one thing and returns values of :mod:`linkhold.model.survey`; nothing here writes,
starts a process or asks a name server. Files are read below a ``root`` folder, which tests replace.
What cannot be read (no rights, no such file system, another format) is unknown and has a reason.
Sources are the formats of systemd 252, NetworkManager 1.42, ifupdown 0.8, cloud-init 23 and Linux
6.1. :mod:`linkhold.survey.gateway` is also imported by the guard process: it and this file use the
standard library only.
"""
