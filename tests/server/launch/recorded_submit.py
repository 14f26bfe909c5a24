"""A spark-submit that notes what it was given, and then does what SCRIPT says: runs, dies, hangs, refuses, leaves."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

with Path(os.environ["RECORD"]).open("a", encoding="utf-8") as record:
    properties = next((b for a, b in zip(sys.argv, sys.argv[1:], strict=False) if a == "--properties-file"), None)
    recorded = {
        "argv": sys.argv[1:],
        "env": {key: value for key, value in os.environ.items() if key in ("FIRN_TOKEN", "FIRN_SECRET", "TZ")},
        "cwd": str(Path.cwd()),
        "properties": properties and Path(properties).read_text(encoding="utf-8"),
        "pid": os.getpid(),
    }
    record.write(json.dumps(recorded) + "\n")
script = os.environ["SCRIPT"]
if script == "dies":
    sys.stderr.write("Exception in thread main: the cluster is full\n")
    sys.exit(7)
if script == "talks":
    while True:
        sys.stdout.write("x" * 1000 + "\n")
        sys.stdout.flush()
        time.sleep(0.001)
if script == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(os.environ["RECORD"] + ".child").write_text(str(child.pid), encoding="utf-8")
    time.sleep(600)
sys.stdin.buffer.read()  # until whoever started it is gone
