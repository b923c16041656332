from typing import Any

KINDS: dict[str, int]

def are_plain(batch: list[Any], kinds: bytes) -> bool: ...
