"""Environments that run on the engine; `seer.make` knows them by id."""
