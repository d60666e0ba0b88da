"""The system's own tools, for tests that make disks and networks: some live where only root's PATH leads."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable


def missing(tools: Iterable[str]) -> list[str]:
    """Those of these tools that are not here."""
    return [tool for tool in tools if _find(tool) is None]


def run(tool: str, *arguments: str, input: str | None = None) -> str:
    """The output of a tool; raises `CalledProcessError` if it fails."""
    path = _find(tool)
    assert path is not None
    return subprocess.run([path, *arguments], check=True, capture_output=True, text=True, input=input).stdout


def _find(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
