"""Machine code on disk: one file for each compiled method.

A file is a line of JSON and the object code. Its name is the key, a digest of all that decides the
code (:func:`seer.compile.method_key`), so nothing is ever looked up by age. Files are written
beside their place and renamed, so a reader sees a whole file or none; each holds the digest of
what it should contain, and a file that does not match is treated as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMAT = 1


@dataclass(frozen=True)
class Compiled:
    """Object code of one method; ``symbol`` is its entry, ``needs`` what it calls outside."""

    symbol: str
    needs: tuple[str, ...]
    code: bytes


def directory() -> Path:
    """Where compiled methods are kept: SEER_CACHE_DIR, else the user's cache directory."""
    asked = os.environ.get("SEER_CACHE_DIR")
    if asked:
        return Path(os.path.expanduser(asked))
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("seer", appauthor=False)) / "methods"


def load(key: str) -> Compiled | None:
    """The compiled method of this key, or None where there is none or it is damaged."""
    try:
        data = (directory() / f"{key}.o").read_bytes()
    except OSError:
        return None
    try:
        line, _, code = data.partition(b"\n")
        head: dict[str, Any] = json.loads(line)
        whole = (
            head["format"] == FORMAT
            and head["key"] == key
            and head["digest"] == hashlib.sha256(code).hexdigest()
        )
        return Compiled(head["symbol"], tuple(head["needs"]), code) if whole else None
    except (ValueError, KeyError, TypeError):
        return None


_noted = False


def store(key: str, entry: Compiled) -> None:
    """Keep a compiled method. Where that is not possible, say so once and go on."""
    global _noted
    head = {
        "format": FORMAT,
        "key": key,
        "digest": hashlib.sha256(entry.code).hexdigest(),
        "symbol": entry.symbol,
        "needs": list(entry.needs),
    }
    folder = directory()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd, name = tempfile.mkstemp(dir=folder, suffix=".part")
        try:
            with os.fdopen(fd, "wb") as f:
                f.write(json.dumps(head).encode() + b"\n" + entry.code)
            os.replace(name, folder / f"{key}.o")
        except BaseException:
            os.unlink(name)
            raise
    except OSError as e:
        if not _noted:
            _noted = True
            warnings.warn(
                f"compiled methods can't be kept in {folder} ({e.strerror or e}), so the next "
                "start compiles again; set SEER_CACHE_DIR to a writable directory",
                stacklevel=2,
            )
