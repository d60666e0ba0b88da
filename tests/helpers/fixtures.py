"""What real RocketMQ systems said and computed, for any test to read; `tests/fixtures/README.md` describes it."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pocketmq.storage.settings import StoreSettings

FIXTURES = Path(__file__).parents[1] / "fixtures"

STORES = ("rmq-4.9.7-kill9", "rmq-4.9.7-stop", "rmq-5.5.0-kill9", "rmq-5.5.0-stop")

# The sizes of files that the stores were written with; everything else was RocketMQ's default.
FIXTURE_SETTINGS = StoreSettings(
    mapped_file_size_commit_log=1_048_576,
    mapped_file_size_consume_queue=2_000,
    max_hash_slot_num=50,
    max_index_num=200,
)


def vectors(name: str, kind: str | None = None) -> list[dict[str, Any]]:
    """The cases of one file of vectors, all or those of one kind."""
    cases: list[dict[str, Any]] = json.loads(gzip.decompress((FIXTURES / f"vectors/{name}.json.gz").read_bytes()))[
        "cases"
    ]
    return [case for case in cases if kind is None or case["kind"] == kind]


class CapturedFrame(NamedTuple):
    """One frame as it went over the wire, and what the recorder knew about it."""

    exchange: int
    is_response: bool
    from_server: bool
    client: str
    server: str
    request_code: int  # of the exchange: in a response, the code that it answers
    code: int
    encoding: int
    is_oneway: bool
    frame: bytes

    @property
    def body(self) -> bytes:
        return self.frame[8 + int.from_bytes(self.frame[5:8]) :]


@cache
def captured_frames() -> tuple[CapturedFrame, ...]:
    """Every captured frame, a request in front of its response."""
    return tuple(frame for path in sorted(FIXTURES.glob("wire/*.jsonl.gz")) for frame in _read(path))


def _read(path: Path) -> Iterator[CapturedFrame]:
    request_codes: dict[int, int] = {}
    with gzip.open(path, "rt") as lines:
        for line in map(json.loads, lines):
            is_response = line["role"] == "response"
            if not is_response:
                request_codes[line["x"]] = line["code"]
            yield CapturedFrame(
                line["x"],
                is_response,
                line["dir"] == "server->client",
                line["client"],
                line["server"],
                request_codes[line["x"]],
                line["code"],
                line["type"],
                line["oneway"],
                bytes.fromhex(line["hex"]),
            )


def expand_store(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Unpack a store below a folder, every file as long as its broker left it: its path and what is in it."""
    with tarfile.open(FIXTURES / f"store/{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    expected = expected_store(name)
    for file in expected["files"]:
        os.truncate(folder / file["path"], file["fullSize"])
    return folder / "store", expected


def expected_store(name: str) -> dict[str, Any]:
    """What is in a store, as another reader than ours found it."""
    content: dict[str, Any] = json.loads(gzip.decompress((FIXTURES / f"store/{name}.json.gz").read_bytes()))
    return content
