"""The rules of `seer.check`."""
