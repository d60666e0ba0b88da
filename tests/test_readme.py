"""The README shows a program and what it prints; this runs the one and compares the other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def block(language: str) -> str:
    [text] = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return str(text)


def test_the_example_prints_what_the_readme_says() -> None:
    run = subprocess.run([sys.executable, "-P", "-c", block("python")], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == (block("text"), "")


def test_every_file_that_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^):]+)\)", README)
    assert links
    assert [link for link in links if not (Path(__file__).parents[1] / link).is_file()] == []
