"""Checks on a model's methods, made when its class is made."""

from __future__ import annotations

from typing import Any


class Analysis:
    """What the methods of a model do, as far as their source tells."""

    def __init__(self, methods: dict[str, set[str] | None]) -> None:
        self.methods = methods

    def writes(self, index: dict[str, int]) -> dict[str, int]:
        """Method name -> bit mask of the columns that it may write; all where unknown."""
        every = (1 << len(index)) - 1
        return {
            name: every if used is None else sum(1 << index[c] for c in used)
            for name, used in self.methods.items()
        }


def analyse(cls: Any) -> Analysis:
    """Check every method of a model."""
    from .model import MethodDecl

    return Analysis({d.name: None for d in cls.of(MethodDecl).values()})
