from collections.abc import Callable
from typing import Any

WIDTH: int

class Adder:
    def __init__(self, make: Callable[..., Any], key: tuple[int, ...], amounts: tuple[int, ...]) -> None: ...
    def __call__(
        self, batch: list[Any], rows: dict[Any, Any], touched: list[Any], lost: bool
    ) -> None: ...

class Spreader:
    def __init__(self, make: Callable[..., Any]) -> None: ...
    def add(self, cells: dict[Any, Any], number: int, amount: int, touched: list[Any]) -> None: ...
