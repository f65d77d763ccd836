"""``linkhold report --html``: one page about a time, made of what nodes say happened.

Events become intervals, intervals outages with what they cost, these a page model, and that HTML.
All of it is pure but ``sources``, which reads, and ``ask``, which asks nodes by their brokers.
"""
