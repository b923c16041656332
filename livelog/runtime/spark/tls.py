"""TLS: which certificates the connections of a session over Spark use. What is done with them is in `secured`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from datalog.errors import UsageProblem

__all__ = ["TLS"]


@dataclass(frozen=True)
class TLS:
    """Encrypt all connections of a session: `livelog.Spark(spark, tls=livelog.TLS("cert.pem", "key.pem", "ca.pem"))`.

    Both ends of each connection present `certificate`, whose private key is in `key`, and accept what `authority` has
    signed. The three are paths of PEM files, the same on all machines of the cluster; only the paths travel. The
    certificate has to serve for servers and for clients. Names in it are not compared with addresses: who has a
    certificate of this authority, and knows the session's secret, belongs to the session.
    """

    certificate: str | Path
    key: str | Path
    authority: str | Path

    def __post_init__(self) -> None:
        for field in fields(self):
            path = getattr(self, field.name)
            if not isinstance(path, (str, Path)) or not str(path):
                raise UsageProblem(f"`{field.name}` is the path of a PEM file, not {path!r}")
            # elsewhere in the cluster the working directory is another one
            object.__setattr__(self, field.name, os.path.abspath(path))

    @staticmethod
    def of(paths: Mapping[str, str] | None) -> TLS | None:
        """What `paths` wrote down; None is a session without TLS."""
        return None if paths is None else TLS(**paths)

    def paths(self) -> dict[str, str]:
        """The three paths by their names."""
        return asdict(self)

    def check(self, where: str = "") -> None:
        """Raise `UsageProblem` unless two who use these files on this machine accept each other."""
        from livelog.runtime.spark.secured import agree  # loads OpenSSL, which few sessions need

        try:
            agree(self)
        except UsageProblem as problem:
            if not where:
                raise
            raise UsageProblem(f"{problem.message}, on {where}") from None
