"""The documentation shows bytes; these are the bytes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from pocketmq.namesrv.settings import NamesrvSettings
from pocketmq.protocol.codes import Encoding, Language, RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.fastjson import loads
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.protocol.hashes import index_key_hash, java_hash, tags_code
from pocketmq.protocol.message import MAGIC_BLANK, decode_record, encode_record
from pocketmq.service.options import ServiceSettings
from pocketmq.service.settings import to_texts
from pocketmq.storage.layout import (
    BLANK,
    CHECKPOINT_SIZE,
    FILLER,
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_SLOT,
    QUEUE_ENTRY_SIZE,
    pack_queue_entry,
    segment_name,
)
from pocketmq.storage.settings import StoreSettings

DOCS = Path(__file__).parents[1] / "docs"
FILE_FORMAT = (DOCS / "file-format.md").read_text()


def blocks_of(text: str) -> list[str]:
    """The blocks of code: a block is a run of lines with four blanks in front."""
    return [re.sub("^    ", "", block, flags=re.MULTILINE) for block in re.findall(r"(?:^    .+\n)+", text, re.M)]


BLOCKS = blocks_of((DOCS / "wire-format.md").read_text())
FILE_BLOCKS = blocks_of(FILE_FORMAT)

ROUTE_REQUEST = Command(
    RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"}, opaque=7, language=Language.PYTHON, version=401
)


def test_the_frames_of_the_wire_format_are_what_is_sent() -> None:
    [frames] = [block for block in BLOCKS if block.startswith("0000002d")]
    shown = [bytes.fromhex(line) for line in frames.splitlines()]
    assert shown == [
        encode_frame(ROUTE_REQUEST._replace(encoding=int(encoding)))
        for encoding in (Encoding.ROCKETMQ, Encoding.MSGPACK)
    ]
    [json_header] = [block for block in BLOCKS if block.startswith('{"code"')]
    frame = encode_frame(ROUTE_REQUEST)
    assert frame[8:].decode() == json_header.rstrip()
    assert list(FrameDecoder().feed(frame)) == [ROUTE_REQUEST]


def test_the_record_of_the_wire_format_is_what_is_stored() -> None:
    [block] = [block for block in BLOCKS if block.startswith("00000073 daa320a7")]
    record = decode_record(bytes.fromhex(block))
    assert (record.topic, bytes(record.body), record.tags, record.crc_ok()) == ("TopicTest", b"hello", "TagA", True)
    assert encode_record(record.to_record()) == bytes.fromhex(block)


def test_the_sizes_of_the_file_format_are_the_default_ones() -> None:
    settings = StoreSettings()
    for size in (
        settings.mapped_file_size_commit_log,
        settings.mapped_file_size_consume_queue,
        settings.index_file_size,
        CHECKPOINT_SIZE,
    ):
        assert f"| {size:,} |" in FILE_FORMAT
    assert f"{settings.max_hash_slot_num:,} slots of {INDEX_SLOT.itemsize} bytes" in FILE_FORMAT
    assert f"{settings.max_index_num:,} entries of {INDEX_ENTRY.itemsize}" in FILE_FORMAT
    names = "\n".join(segment_name(n * settings.mapped_file_size_commit_log) for n in range(3))
    assert f"{names}\n" in FILE_BLOCKS


def test_the_record_and_its_queue_entry_are_what_is_stored() -> None:
    [shown] = [block for block in FILE_BLOCKS if block.startswith("00000065 daa320a7")]
    record = decode_record(bytes.fromhex(shown))
    assert (bytes(record.body), record.tags, record.crc_ok()) == (b"hi", "A", True)
    assert (record.size, record.physical_offset, record.queue_offset) == (101, 1024, 7)
    assert encode_record(record.to_record()) == bytes.fromhex(shown)
    assert f"begins at byte {record.queue_offset * QUEUE_ENTRY_SIZE} of the queue" in FILE_FORMAT
    entry = pack_queue_entry(record.physical_offset, record.size, tags_code(record.tags))
    assert entry in bytes_shown()


def test_the_blank_record_and_the_filler_are_what_is_stored() -> None:
    assert BLANK.pack(500, MAGIC_BLANK) in bytes_shown()
    assert FILLER in bytes_shown()


def bytes_shown() -> list[bytes]:
    return [bytes.fromhex(block) for block in FILE_BLOCKS if re.fullmatch(r"[0-9a-f\s]+", block)]


def test_the_hashes_of_the_file_format_are_what_is_computed() -> None:
    slots = StoreSettings().max_hash_slot_num
    rows = re.findall(r"^\| `(.+)` \| (-\d+) \| (\d+) \| (\d+) \| (\d+) \|$", FILE_FORMAT, re.M)
    assert len(rows) == 2
    for text, *numbers in rows:
        slot = index_key_hash(text) % slots
        computed = java_hash(text), index_key_hash(text), slot, INDEX_HEADER.size + INDEX_SLOT.itemsize * slot
        assert tuple(map(int, numbers)) == computed


def test_the_index_of_the_file_format_is_what_two_inserts_make() -> None:
    first, second = 1_700_000_000_123, 1_700_000_005_423
    key_hash = index_key_hash("TopicTest#order-1")
    [shown] = [block for block in FILE_BLOCKS if block.startswith("0000018bcfe5687b")]
    header, slot, *entries = [bytes.fromhex(line) for line in shown.splitlines()]
    assert header == INDEX_HEADER.pack(first, second, 1024, 2048, 1, 3)
    assert slot == np.array(2, INDEX_SLOT).tobytes()
    rows = np.array([(key_hash, 1024, 0, 0), (key_hash, 2048, (second - first) // 1000, 1)], INDEX_ENTRY)
    assert b"".join(entries) == rows.tobytes()


def test_both_documents_of_the_file_format_say_the_same() -> None:
    documents = [loads(block) for block in FILE_BLOCKS if block.startswith("{")]
    assert documents == [{"offsetTable": {"TopicTest@group": {0: 8, 1: 7}}}] * 2


def test_every_file_that_the_documentation_names_exists() -> None:
    root = DOCS.parent
    named = [name for path in DOCS.glob("*.md") for name in re.findall(r"`([a-z_]+/[\w/.]*)`", path.read_text())]
    assert named
    assert [name for name in named if not (root / name).exists()] == []


def test_the_page_of_the_nameserver_lists_every_setting_with_its_default() -> None:
    page = (DOCS / "namesrv.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`)? ?\|", page, re.MULTILINE))
    assert listed == to_texts(NamesrvSettings()) | to_texts(ServiceSettings())
