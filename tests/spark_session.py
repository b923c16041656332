"""Spark for the tests: one session on this machine, and one on a standalone cluster of its own.

A process has one SparkContext at a time, so that the one gives way to the other; the order of the tests sees to it
that this happens once at most. All that Java and its Python workers have to say goes to files in a temporary folder.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from datalog.errors import UsageProblem
from livelog.runtime.spark.java import check_java
from livelog.runtime.spark.slots import check_slots

__all__ = ["CORES", "HERE", "WORKERS", "Cluster", "Sparks"]

HERE = "127.0.0.1"
ROOT = Path(__file__).parents[1]
WORKERS = 2
CORES = 3
"""Of each of the workers: a session of three partitions has to spread, and leaves room for jobs beside it."""
PATIENCE = 180.0
"""Seconds for a process of Spark to be there, on a busy machine."""

# A shell between us and the process of Spark. It waits for our end of a pipe to close, be it because we were killed,
# and takes the whole group with it then: workers have executors, and these have Python processes.
GUARDED = '"$@" & cat >/dev/null; kill -9 0'


class Cluster:
    """A master and some workers of Spark's own cluster manager, all on this machine."""

    def __init__(self, folder: Path, workers: int = WORKERS, cores: int = CORES, memory: str = "1g") -> None:
        self.folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            base = "org.apache.spark.deploy"
            self._start("master", f"{base}.master.Master", "--host", HERE, "--port", "0", "--webui-port", "0")
            self.master = self._said("master", re.compile(r"Starting Spark master at (spark://\S+)"))
            for i in range(workers):
                work = folder / f"work-{i}"
                self._start(
                    f"worker-{i}", f"{base}.worker.Worker", self.master, "--host", HERE, "--webui-port", "0",
                    "-c", str(cores), "-m", memory, "-d", str(work),
                )  # fmt: skip
            for i in range(workers):
                self._said(f"worker-{i}", re.compile(r"Successfully registered with master (\S+)"))
        except BaseException:
            self.stop()
            raise

    def _start(self, name: str, *command: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        env = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HERE, "SPARK_DAEMON_MEMORY": "256m"}
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    ["sh", "-c", GUARDED, "sh", str(home / "bin" / "spark-class"), *command],
                    stdin=subprocess.PIPE, stdout=log, stderr=log, env=env, start_new_session=True,
                )
            )  # fmt: skip

    def _said(self, name: str, wanted: re.Pattern[str]) -> str:
        """Wait until the log of a process says something."""
        path = self.folder / f"{name}.log"
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            text = path.read_text(errors="replace")
            if match := wanted.search(text):
                return match[1]
            time.sleep(0.1)
        raise RuntimeError(f"the {name} of the cluster did not start:\n{text[-2000:]}")

    def stop(self) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
        self._processes.clear()


class Sparks:
    """The SparkSession of this process: on this machine, or on a cluster that is started with it."""

    def __init__(self) -> None:
        self._where = ""
        self._spark: Any = None
        self._cluster: Cluster | None = None
        self._gateway: Any = None
        self._log: Any = None
        self._folder: Path | None = None

    def session(self, where: str) -> Any:
        """The SparkSession on "spark" (local[4]) or on "cluster"; skips the test where there is no Java."""
        if self._where == where:
            return self._spark
        try:
            check_java()
        except UsageProblem as problem:
            pytest.skip(problem.message)
        self._leave()
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="livelog-tests-"))
        if where == "spark":
            self._spark = self._connect("local[4]", {"spark.python.daemon.module": "tests.spark_daemon"})
        else:
            self._cluster = Cluster(self._folder)
            executor = {"spark.executor.cores": CORES, "spark.executor.memory": "512m"}
            self._spark = self._connect(self._cluster.master, executor)
            check_slots(self._spark, WORKERS * CORES, beside=False, wait=PATIENCE)
        self._where = where
        return self._spark

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None, "the tests are not on the cluster"
        return self._cluster

    def _connect(self, master: str, more: dict[str, Any]) -> Any:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        assert self._folder is not None
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))  # to find the tests' modules
        conf = SparkConf(loadDefaults=False).setMaster(master).setAppName("livelog tests")
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": HERE,
            "spark.driver.bindAddress": HERE,
            "spark.driver.memory": "1g",
            "spark.dynamicAllocation.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": (self._folder / "warehouse").as_uri(),
            "spark.executorEnv.PYTHONPATH": path,
            **more,
        }
        for name, value in settings.items():
            conf.set(name, str(value))
        handler = signal.getsignal(signal.SIGINT)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HERE, "PYTHONPATH": path}.items():
                patch.setenv(name, value)
            if self._gateway is None:
                self._log = (self._folder / "spark.log").open("wb")
                options = {"stdout": self._log, "stderr": self._log, "start_new_session": True}
                self._gateway = launch_gateway(conf, options)
            context = SparkContext(conf=conf, gateway=self._gateway)
        signal.signal(signal.SIGINT, handler)  # Spark's own would cancel the session's stage
        return SparkSession(context)

    def _leave(self) -> None:
        """Let go of the SparkSession, and of its cluster; the JVM stays, for the next one."""
        if self._spark is not None:
            self._spark.stop()
            self._spark = None
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None
        self._where = ""

    def stop(self) -> None:
        """Leave nothing behind."""
        from pyspark import SparkContext

        with suppress(Exception):  # the JVM may be gone
            self._leave()
        if self._cluster is not None:
            self._cluster.stop()
        if self._gateway is not None:
            process = self._gateway.proc
            SparkContext._gateway = SparkContext._jvm = None
            with suppress(Exception):
                self._gateway.shutdown()
            with suppress(OSError):
                process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            self._log.close()
            self._gateway = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
