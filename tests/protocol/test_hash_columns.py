"""Java's string hash of many texts at once."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures import vectors
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.hash_columns import Codes, extended, hash_texts, index_key_hashes
from pocketmq.protocol.hashes import index_key_hash, java_hash
from pocketmq.protocol.spans import Spans, as_bytes

HASH_CASES = vectors("ids", "hash")

# "polygenelubricants" has the hash -2^31, which has no opposite.
any_texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.text("ab", max_size=150),
    st.sampled_from(["", "polygenelubricants", "𝄞", "标签"]),
)


def spans_of(texts: list[bytes], gap: bytes = b"\xff~") -> Spans:
    """Texts that lie in one buffer with bytes of others between them."""
    data = gap + gap.join(texts) + gap
    lengths = np.array([len(text) for text in texts], np.int64)
    ends = np.cumsum(lengths + len(gap))
    return Spans(as_bytes(data), ends - lengths, ends)


def hash_spans(texts: list[bytes]) -> list[int]:
    return [int(code) for code in hash_texts(spans_of(texts)).codes.view(np.int32)]


def codes_of(texts: list[str]) -> Codes:
    return np.array([java_hash(text) & 0xFFFFFFFF for text in texts], np.uint32)


@given(st.lists(any_texts))
def test_codes_are_folded_like_single_hashes(texts: list[str]) -> None:
    hashes = index_key_hashes(codes_of(texts))
    assert hashes.tolist() == [index_key_hash(text) for text in texts]
    assert hashes.dtype == np.dtype(np.int64)


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


@given(st.lists(any_texts))
def test_spans_and_texts_always_agree(texts: list[str]) -> None:
    assert hash_spans([text.encode() for text in texts]) == [java_hash(text) for text in texts]


@given(st.lists(any_texts), st.data())
def test_chosen_spans_at_the_very_edges_of_the_data_agree_too(texts: list[str], data: st.DataObject) -> None:
    spans = Spans.of([text.encode() for text in texts])
    rows = data.draw(st.lists(st.sampled_from(range(len(texts)))) if texts else st.just([]))
    hashes = hash_texts(spans[np.array(rows, np.int64)])
    assert hashes.codes.tolist() == codes_of([texts[row] for row in rows]).tolist()
    assert hash_texts(spans)[np.array(rows, np.int64)].powers.tolist() == hashes.powers.tolist()


@given(st.lists(st.tuples(any_texts, any_texts)))
def test_the_hash_of_a_text_gives_that_of_prefix_and_text(pairs: list[tuple[str, str]]) -> None:
    """Lengths count in UTF-16 units, of which a character has one or two and never as many as bytes."""
    texts = hash_texts(spans_of([text.encode() for _, text in pairs]))
    codes = texts.after(codes_of([prefix for prefix, _ in pairs]))
    assert codes.tolist() == codes_of([prefix + text for prefix, text in pairs]).tolist()


@given(st.lists(st.binary(max_size=8)), any_texts)
def test_malformed_texts_behind_a_prefix_hash_as_their_replacement(texts: list[bytes], prefix: str) -> None:
    codes = hash_texts(spans_of(texts)).after(codes_of([prefix] * len(texts)))
    assert codes.tolist() == codes_of([prefix + text.decode("utf-8", "replace") for text in texts]).tolist()


@given(st.lists(any_texts), st.sampled_from(["", "#", "T#", "a longer text"]))
def test_codes_are_extended_by_a_text_behind(texts: list[str], end: str) -> None:
    assert extended(codes_of(texts), end).tolist() == codes_of([text + end for text in texts]).tolist()
