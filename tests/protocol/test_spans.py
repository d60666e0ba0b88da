from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.spans import Ints, Spans, as_bytes, at_every_byte, read_at, read_lengths, write_at

strings = st.lists(st.binary(max_size=40), max_size=20)


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


@st.composite
def scattered(draw: st.DrawFn, letters: str | None = None) -> tuple[Spans, list[bytes]]:
    """Spans anywhere in a buffer, overlapping or not and in any order, with the strings they stand for."""
    data = draw(st.text(letters, max_size=300).map(str.encode) if letters else st.binary(max_size=300))
    place = st.integers(0, len(data))
    pairs = [sorted(pair) for pair in draw(st.lists(st.tuples(place, place), max_size=20))]
    pairs *= draw(st.sampled_from([1, 10]))
    starts, ends = ints(*(start for start, _ in pairs)), ints(*(end for _, end in pairs))
    return Spans(as_bytes(data), starts, ends), [data[start:end] for start, end in pairs]


def test_an_element_starts_at_every_byte() -> None:
    assert at_every_byte(as_bytes(b"\0\1\2\3"), ">i2").tolist() == [0x0001, 0x0102, 0x0203]


@pytest.mark.parametrize("size", range(4))
def test_a_buffer_too_short_for_one_value_has_no_elements(size: int) -> None:
    assert len(at_every_byte(as_bytes(bytes(size)), ">i4")) == 0


def test_values_are_read_unaligned_and_signed_and_in_native_order() -> None:
    values = read_at(as_bytes(b"\0\xff\xff\xff\xfe\0\0\1\0"), ">i4", ints(1, 5))
    assert values.tolist() == [-2, 256]
    assert values.dtype == np.int32
    assert values.dtype.isnative


def test_lengths_behind_the_data_are_read_at_its_end() -> None:
    lengths = read_lengths(as_bytes(b"\0\1\2\3"), ">i2", ints(0, 1, 2, 3, 2**62))
    assert lengths.tolist() == [0x0001, 0x0102, 0x0203, 0x0203, 0x0203]


def test_negative_lengths_are_more_than_anything_holds() -> None:
    data = as_bytes(struct.pack(">3i", -1, -(2**31), 2**31 - 1))
    first, second, third = read_lengths(data, ">i4", ints(0, 4, 8)).tolist()
    assert min(first, second) > 2**59
    assert first + second + 2**62 < 2**63
    assert third == 2**31 - 1


def test_values_are_written_one_for_all_or_one_for_each() -> None:
    target = bytearray(8)
    write_at(as_bytes(target), ">i2", ints(1, 5), ints(1, -2))
    write_at(as_bytes(target), "V1", ints(0, 7), np.void(b"x"))
    assert target == b"x\0\1\0\0\xff\xfex"


@given(strings)
def test_a_column_of_strings_holds_these_strings(values: list[bytes]) -> None:
    spans = Spans.of(values)
    assert len(spans) == len(values)
    assert spans.tolist() == values
    assert spans.lengths.tolist() == [len(value) for value in values]
    assert spans.present.tolist() == [value != b"" for value in values]
    assert [bytes(view) for view in spans.views()] == values


@given(scattered())
def test_compacting_lays_the_strings_end_to_end(case: tuple[Spans, list[bytes]]) -> None:
    spans, values = case
    data, offsets = spans.compact()
    assert data.tobytes() == b"".join(values)
    assert Spans.adjacent(data, offsets).tolist() == values


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 4095, 4096, 4097, 100_000])
def test_a_string_of_any_length_is_copied_whole_and_nothing_beside_it(length: int) -> None:
    text = bytes(range(1, 252)) * (length // 251 + 1)
    target = bytearray(length + 2)
    Spans.of([text[:length]]).copy_to(as_bytes(target), ints(1))
    assert target == b"\0" + text[:length] + b"\0"


@given(scattered(), st.binary(max_size=3))
def test_equal_finds_exactly_the_same_strings(case: tuple[Spans, list[bytes]], other: bytes) -> None:
    spans, values = case
    for wanted in (*values, other):
        assert spans.equal(wanted).tolist() == [value == wanted for value in values]


def test_trailing_zero_bytes_count_in_a_comparison() -> None:
    spans = Spans.of([b"a", b"a\0", b"a\0\0", b"\0", b"ab"])
    assert spans.equal(b"a\0").tolist() == [False, True, False, False, False]
    assert spans.equal(b"\0").tolist() == [False, False, False, True, False]


@given(scattered())
def test_a_string_is_common_if_all_rows_hold_it(case: tuple[Spans, list[bytes]]) -> None:
    spans, values = case
    assert spans.common() == (values[0] if len(set(values)) == 1 else None)


@given(st.binary(max_size=20), st.integers(1, 5), st.integers(0, 3))
def test_equal_strings_are_common_wherever_they_lie(value: bytes, times: int, gap: int) -> None:
    spans = Spans.of([value, b"-" * gap] * times)
    assert spans[::2].common() == value


@given(strings, st.integers(-1, 3), st.integers(0, 4))
def test_rows_are_chosen_by_number_mask_or_slice(values: list[bytes], low: int, high: int) -> None:
    spans = Spans.of(values)
    odd = np.arange(len(values)) % 2 == 1
    assert spans[odd].tolist() == values[1::2]
    assert spans[np.flatnonzero(odd)].tolist() == values[1::2]
    assert spans[low:high].tolist() == values[low:high]


@given(scattered(), scattered())
def test_one_column_followed_by_another_has_the_rows_of_both(
    first: tuple[Spans, list[bytes]], second: tuple[Spans, list[bytes]]
) -> None:
    assert first[0].followed_by(second[0]).tolist() == first[1] + second[1]
    assert first[0].followed_by(first[0]).tolist() == first[1] + first[1]


@given(scattered())
def test_each_string_is_given_whether_copied_or_not(case: tuple[Spans, list[bytes]]) -> None:
    spans, values = case
    assert [bytes(string) for string in spans.each()] == values


@pytest.mark.parametrize("length", [0, 1, 100, 5000])
def test_each_of_many_strings_of_one_length_is_given(length: int) -> None:
    values = [bytes([number]) * length for number in range(100)]
    assert [bytes(string) for string in Spans.of(values).each()] == values


@given(scattered())
def test_fenced_strings_have_a_fence_around_each_and_eight_at_the_end(case: tuple[Spans, list[bytes]]) -> None:
    spans, values = case
    data, fences = spans.fenced(b"|")
    assert [data[start + 1 : end].tobytes() for start, end in pairwise(fences.tolist())] == values
    assert data[fences].tobytes() == b"|" * (len(values) + 1)
    assert set(data[: fences[0]].tobytes()) <= {ord("|")}
    assert data[-8:].tobytes() == 8 * b"|"


@pytest.mark.parametrize("before", [0, 4000])
@pytest.mark.parametrize("lengths", [[0], [1], [0, 8], [7, 8, 9], [80, 81, 300], [1] * 99 + [1000], [3000, 3001]])
def test_many_strings_are_laid_out_whatever_their_lengths(lengths: list[int], before: int) -> None:
    values = [bytes([97 + number % 26]) * lengths[number % len(lengths)] for number in range(200)]
    spans = Spans.of([b"-" * before, *values])[1:]
    data, fences = spans.fenced(b"|")
    assert data[fences[0] :].tobytes() == b"|" + b"".join(value + b"|" for value in values) + 7 * b"|"
    data, offsets = spans.compact()
    assert data.tobytes() == b"".join(values)
    assert Spans.adjacent(data, offsets).tolist() == values


@given(scattered("ab |") | scattered("ab|"))
def test_splitting_gives_the_non_empty_pieces_with_their_rows(case: tuple[Spans, list[bytes]]) -> None:
    spans, values = case
    rows, pieces = spans.split(b" ")
    assert pieces.data is spans.data
    expected = [(row, piece) for row, value in enumerate(values) for piece in value.split(b" ") if piece]
    assert list(zip(rows.tolist(), pieces.tolist(), strict=True)) == expected
