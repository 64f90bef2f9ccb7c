"""Simulators by others, timed in interpreters of their own beside ours."""
