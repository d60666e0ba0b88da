"""Throw bytes at every decoder of the protocol until one fails: `make fuzz`.

The first byte of an input chooses a target of `tests/helpers/fuzz_targets.py`, which says what must hold. Inputs grow
out of captured frames and are kept in `build/fuzz/corpus`, so that the next run goes on where this one ended.
libFuzzer's options may follow, such as `-max_total_time=60`, or the name of a file with which it failed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

TESTS = Path(__file__).resolve().parents[1]
FOLDER = TESTS.parent / "build" / "fuzz"

sys.path.insert(0, str(TESTS / "helpers"))

with atheris.instrument_imports(include=["pocketmq.protocol"]):
    from fuzz_seeds import seeds
    from fuzz_targets import TARGETS


def check_one(data: bytes) -> None:
    if data:
        TARGETS[data[0] % len(TARGETS)](data[1:])


def make_corpus() -> Path:
    corpus = FOLDER / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, target in enumerate(TARGETS):
        for index, seed in enumerate(seeds(target)):
            (corpus / f"{target.__name__}-{index}").write_bytes(bytes([number]) + seed)
    return corpus


def main() -> None:
    arguments = [sys.argv[0], f"-artifact_prefix={FOLDER}/", *sys.argv[1:]]
    if not any(Path(argument).is_file() for argument in sys.argv[1:]):
        arguments.append(str(make_corpus()))
    atheris.Setup(arguments, check_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
