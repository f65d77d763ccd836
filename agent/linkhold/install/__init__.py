"""linkhold as a service of a host: its venv, its units and the files around them.

Standard library only, and none of it needs a file system of its own: it runs from the wheel as it
is, before anything is installed (``PYTHONPATH=linkhold.whl python3 -m linkhold setup --system``).
"""
