"""Java's string hash of one text, and the body CRC."""

from __future__ import annotations

import pytest
from fixtures import vectors
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.hashes import body_crc, fold_key_hash, index_key_hash, java_hash, tags_code

HASH_CASES = vectors("ids", "hash")


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


@given(st.integers(-(2**40), 2**40))
def test_a_hash_is_folded_whatever_stands_above_its_bits(code: int) -> None:
    hashed = (code + 2**31) % 2**32 - 2**31
    assert fold_key_hash(code) == (0 if hashed == -(2**31) else abs(hashed))


def test_the_crc_is_that_of_java_without_the_top_bit() -> None:
    for case in vectors("ids", "crc"):
        assert body_crc(bytes.fromhex(case["hex"])) == case["expect"]["crc"]


@pytest.mark.parametrize(("body", "crc"), [(b"hello", 907060870), (b"123456789", 1274296614), (b"a", 1756872259)])
def test_the_crc_is_taken_of_bytes_and_views(body: bytes, crc: int) -> None:
    assert body_crc(body) == body_crc(memoryview(body)) == crc
