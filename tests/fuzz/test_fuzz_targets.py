"""The fuzzer's targets on a fixed set of inputs: captured ones, damaged ones and short random ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import fuzz_targets
import pytest
from fuzz_seeds import seeds
from fuzz_targets import (
    TARGETS,
    Target,
    check_batch,
    check_body,
    check_json,
    check_records,
    check_records_body,
    check_registration,
    check_stream,
)
from hypothesis import given
from hypothesis import strategies as st

SEED = 20_260_701
DAMAGED = 1500  # for each target


def damaged(target: Target, seed: int) -> Iterator[bytes]:
    """Sound inputs with a few bytes changed, cut out or put in, the same ones for the same seed."""
    chance = random.Random(f"{seed} {target.__name__}")
    for _ in range(DAMAGED):
        data = bytearray(chance.choice(seeds(target)))
        for _ in range(chance.randint(1, 3)):
            damage(data, chance)
        yield bytes(data)


def damage(data: bytearray, chance: random.Random) -> None:
    # Lengths and numbers that matter stand at the front more often than not.
    place = chance.randrange(min(len(data), chance.choice((12, 100, len(data)))) or 1)
    match chance.randrange(5):
        case 0:
            data[place : place + 1] = bytes([chance.randrange(256)])
        case 1:
            data[place : place + 1] = bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF))])
        case 2:
            data[place : place + 4] = chance.choice(
                (b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0")
            )
        case 3:
            del data[place : place + chance.randint(1, 8)]
        case _:
            data[place:place] = chance.randbytes(chance.randint(1, 4))


@pytest.mark.parametrize("target", TARGETS)
def test_captured_inputs_pass(target: Target) -> None:
    assert len(seeds(target)) > 5
    for data in seeds(target):
        target(data)


@pytest.mark.parametrize("target", TARGETS)
def test_damaged_inputs_pass(target: Target) -> None:
    for number, data in enumerate(damaged(target, SEED)):
        try:
            target(data)
        except Exception as error:
            error.add_note(f"input {number} of seed {SEED}: {data.hex()}")
            raise


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.binary(max_size=200))
def test_random_inputs_pass(target: Target, data: bytes) -> None:
    target(data)


def fail(*_: object, **__: object) -> Any:
    raise ValueError("not the kind of error that a decoder may raise")


def give(value: object) -> Any:
    return lambda *_, **__: value


@pytest.mark.parametrize(
    ("target", "name", "fake"),
    [
        (check_stream, "encode_frame", give(b"")),
        (check_stream, "decode_header", fail),
        (check_records, "iter_records", give([])),
        (check_records, "RecordColumns", fail),
        (check_batch, "decode_batch", give([])),
        (check_batch, "batch_columns", fail),
        (check_records_body, "iter_records", give([])),
        (check_records_body, "unpack_records_body", fail),
        (check_json, "read", give([])),
        (check_json, "read", fail),
        (check_body, "read", fail),
        (check_registration, "read", fail),
        (check_registration, "replace", give(None)),
    ],
)
def test_a_reader_that_is_wrong_is_noticed(
    target: Target, name: str, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every seed is read, or a fake reader would not be noticed."""
    monkeypatch.setattr(fuzz_targets, name, fake)
    with pytest.raises((AssertionError, ValueError)):
        target(seeds(target)[0])
