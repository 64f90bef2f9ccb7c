"""Vectorizers side by side: one adapter class a library, each in an interpreter of its own."""
