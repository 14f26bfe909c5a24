"""Programs import their modules without garbage collection, and collect afterwards."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
from firn import garbage_collection
assert not gc.isenabled()
import json
garbage_collection.resume()
assert gc.isenabled() and gc.get_freeze_count() > 1000
"""


def test_it_waits_for_the_last_import() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
