"""Java's string hash, singly and for many spans at once, and the body CRC."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures import vectors
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.hashes import body_crc, index_key_hash, java_hash, java_hash_bytes, tags_code

HASH_CASES = vectors("ids", "hash")


def hash_spans(texts: list[bytes]) -> list[int]:
    """Hash texts that lie in one buffer with bytes of others between them."""
    gap = b"\xff~"
    data = np.frombuffer(gap + gap.join(texts) + gap, np.uint8)
    lengths = np.array([len(text) for text in texts], np.int64)
    ends = np.cumsum(lengths + len(gap))
    return [int(code) for code in java_hash_bytes(data, ends - lengths, ends)]


def test_hashes_are_those_of_java() -> None:
    for case in HASH_CASES:
        expect = case["expect"]
        assert java_hash(case["s"]) == expect["hash"]
        assert tags_code(case["s"]) == expect["tag"]
        assert index_key_hash(case["s"]) == expect["index"]


def test_a_missing_tag_has_code_zero() -> None:
    for case in vectors("ids", "tagnull"):
        assert tags_code(case["s"]) == case["expect"]["tag"] == 0


@pytest.mark.parametrize(
    ("tag", "code"),
    [("TagA", 2598919), ("TagB", 2598920), ("*", 42), ("标签", 857175), ("hello world", 1794106052)],
)
def test_the_code_of_a_tag_is_its_hash(tag: str, code: int) -> None:
    assert tags_code(tag) == code


def test_the_index_hash_is_never_negative() -> None:
    assert java_hash("TopicTest#order-1") == -1829193424
    assert index_key_hash("TopicTest#order-1") == 1829193424
    assert java_hash("polygenelubricants") == -(2**31)
    assert index_key_hash("polygenelubricants") == 0


def test_many_spans_hash_like_single_texts() -> None:
    texts = [bytes.fromhex(case["expect"]["utf8"]) for case in HASH_CASES]
    assert hash_spans(texts) == [java_hash(text.decode()) for text in texts]


def test_no_spans_give_no_hashes() -> None:
    assert hash_spans([]) == []
    assert hash_spans([b""]) == [0]


@pytest.mark.parametrize("length", [127, 128, 129, 255, 256, 257, 40_000])
def test_long_spans_hash_like_short_ones(length: int) -> None:
    texts = [b"z" * length, b"TagA"]
    assert hash_spans(texts) == [java_hash("z" * length), 2598919]


def test_malformed_utf8_hashes_as_its_replacement() -> None:
    assert hash_spans([b"a\xffb", b"\xe4\xb8", b"TagA"]) == [
        java_hash("a\ufffdb"),
        java_hash("\ufffd"),
        2598919,
    ]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text("ab", max_size=150)))
def test_spans_and_texts_always_agree(texts: list[str]) -> None:
    assert hash_spans([text.encode() for text in texts]) == [java_hash(text) for text in texts]


def test_the_crc_is_that_of_java_without_the_top_bit() -> None:
    for case in vectors("ids", "crc"):
        assert body_crc(bytes.fromhex(case["hex"])) == case["expect"]["crc"]


@pytest.mark.parametrize(("body", "crc"), [(b"hello", 907060870), (b"123456789", 1274296614), (b"a", 1756872259)])
def test_the_crc_is_taken_of_bytes_and_views(body: bytes, crc: int) -> None:
    assert body_crc(body) == body_crc(memoryview(body)) == crc
