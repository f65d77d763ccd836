"""The fleet as its brokers show it, for people: what ``linkhold top`` draws.

``picture``, ``presence``, ``rows``, ``screen``, ``details``, ``keys``, ``paint`` and ``phases``
are pure; ``line`` listens to a broker, ``terminal`` owns the terminal and ``live`` joins them.
"""
