"""The agent: wiring of sensors, core, state file, legs and outbox in one event loop."""
