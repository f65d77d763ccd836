"""The two MQTT legs: the node's own broker, and the fleet's."""
