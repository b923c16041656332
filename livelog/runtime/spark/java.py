"""Is there a Java that Spark can use? Said in one sentence, before Spark says it in fifty lines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from datalog.errors import UsageProblem

__all__ = ["OLDEST", "check_java", "major"]

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

PACKAGE = "openjdk-17-jre-headless"
PATIENCE = 60.0
"""Seconds in which a Java that works has told its version, on the busiest machine."""

_VERSION = re.compile(r'^.*\bversion "([^"\s]+)"', re.MULTILINE)


def check_java() -> None:
    """Raise `UsageProblem` unless the Java that Spark would start is new enough for it.

    Spark takes `JAVA_HOME/bin/java` where `JAVA_HOME` is set, and otherwise the first `java` on the `PATH`. A Java that
    works but whose version nobody can read is given the benefit of the doubt.
    """
    path = _find()
    version = _version(path)
    number = major(version)
    if number is not None and number < OLDEST:
        raise _problem(f"{path} is version {version}", "to where a newer one is")


def major(version: str) -> int | None:
    """The number by which a version is known; None if it is not a version.

    >>> [major(v) for v in ("1.8.0_292", "11.0.2", "17.0.15", "21", "25-ea", "17.0.4.1", "1.7", "9-internal")]
    [8, 11, 17, 21, 25, 17, 7, 9]
    >>> major("unknown")
    """
    match = re.match(r"(?:1\.(?=\d))?(\d+)", version)
    return int(match[1]) if match else None


def _find() -> str:
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
        raise _problem(f"JAVA_HOME is {home!r}, where there is no bin/java", "to where one is")
    found = shutil.which("java")
    if found is None:
        raise _problem("there is no java on the PATH", "to where one is")
    return found


def _version(path: str) -> str:
    """What `java -version` says of itself; it goes to standard error, after whatever a vendor puts before it."""
    try:
        done = subprocess.run(
            [path, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _problem(f"`{path} -version` does not answer", "to where one that works is") from None
    except OSError as error:
        raise _problem(f"{path} cannot be run ({error.strerror or error})", "to where one that works is") from None
    said = f"{done.stderr}\n{done.stdout}"
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        first = next((line.strip() for line in said.splitlines() if line.strip()), "")
        raise _problem(f"`{path} -version` fails ({how}{first and ': ' + first})", "to where one that works is")
    match = _VERSION.search(said)
    return match[1] if match else "unknown"


def _problem(what: str, where: str) -> UsageProblem:
    return UsageProblem(
        f"Spark needs Java {OLDEST} or newer, but {what}: install one (apt-get install {PACKAGE}) "
        f"or set JAVA_HOME {where}"
    )
