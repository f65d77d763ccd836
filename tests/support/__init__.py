"""What tests share: `from support.topology import TwoSwitches`."""
