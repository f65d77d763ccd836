"""The spool: uploads that outlive the process, see ``docs/uploads.md``."""
