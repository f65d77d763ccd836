"""The configuration: schema, strict reading of YAML, the printed default file."""
