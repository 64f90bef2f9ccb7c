from typing import Any

def run(
    envs: list[Any],
    orders: list[list[str]],
    names: tuple[str, ...],
    rows: list[Any],
    table: dict[int, Any] | None,
    obs: list[Any],
    address: int,
    told: list[Any],
    odd: list[Any],
    at: list[int],
    results: list[Any] | None,
) -> None: ...
def lists(
    names: tuple[str, ...], block: Any, address: int, results: list[Any] | None
) -> tuple[Any, Any, Any, Any, Any]: ...
def ready(
    given: Any, names: tuple[str, ...], table: dict[int, Any], scalar: type
) -> list[dict[str, Any]] | None: ...
