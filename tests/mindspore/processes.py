"""Programs in processes of their own."""

import os
import subprocess
import sys


def run(program: str, *arguments: object, **environment: str) -> str:
    """Runs a Python program; returns its stdout."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    result = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout
