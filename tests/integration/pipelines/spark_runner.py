"""Spark's own runner of pipelines, `spark-pipelines`, in a process of its own, without Firn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark

CONNECT = Path(__file__).resolve().parents[3] / ".venv" / "spark-pipelines"
"""What Spark Connect needs of Python, and Firn does not: `make .venv/.made/spark-pipelines` installs it."""
HOME = Path(pyspark.__file__).parent
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
}


def spark_pipelines(*arguments: str, folder: Path, conf: Path) -> None:
    """Run the program in a folder."""
    conf.mkdir(exist_ok=True)
    (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in SETTINGS.items()))
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(CONNECT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SPARK_HOME": str(HOME),
        "SPARK_CONF_DIR": str(conf),
        "no_proxy": "localhost,127.0.0.1",
    }
    program = HOME / "bin" / "spark-pipelines"
    done = subprocess.run(
        [str(program), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
