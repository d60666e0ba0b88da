"""Typed headers out of ext fields and back."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import HeaderFieldError, LocalProtocolError, RemoteProtocolError
from pocketmq.protocol.fields import Field, Int32, Int64, Kind, Wire, codec, decode_header, encode_header
from pocketmq.protocol.headers import NoFields


class Sample(NamedTuple):
    """One field of each kind, required and not."""

    topic: str
    queue_id: Int32
    queue_offset: Int64
    unit_mode: bool
    client_id: Annotated[str | None, Wire("clientID")] = None
    max_nums: Int32 | None = None
    born_timestamp: Int64 = -1
    is_order: bool | None = None
    committed: bool = True
    index_at: Annotated[Int64, Wire("index")] = 0


REQUIRED = {"topic": "T", "queueId": "3", "queueOffset": "7", "unitMode": "false"}
SAMPLE = Sample("T", 3, 7, False)


def read(**ext_fields: str) -> Sample:
    return decode_header(Sample, REQUIRED | ext_fields)


# --- what a class says about its fields


def test_the_annotations_of_a_class_say_everything() -> None:
    assert codec(Sample).fields == (
        Field("topic", "topic", Kind.TEXT, True),
        Field("queue_id", "queueId", Kind.INT32, True),
        Field("queue_offset", "queueOffset", Kind.INT64, True),
        Field("unit_mode", "unitMode", Kind.BOOLEAN, True),
        Field("client_id", "clientID", Kind.TEXT, False),
        Field("max_nums", "maxNums", Kind.INT32, False),
        Field("born_timestamp", "bornTimestamp", Kind.INT64, False, -1),
        Field("is_order", "isOrder", Kind.BOOLEAN, False),
        Field("committed", "committed", Kind.BOOLEAN, False, True),
        Field("index_at", "index", Kind.INT64, False, 0),
    )


def test_a_codec_is_made_once() -> None:
    assert codec(Sample) is codec(Sample)


def test_a_header_without_fields_is_one_too() -> None:
    assert decode_header(NoFields, {"bname": "b"}) == NoFields()
    assert encode_header(NoFields()) == {}


class WithFloat(NamedTuple):
    rate: float


class WithList(NamedTuple):
    topics: list[str]


class WithOptionalBytes(NamedTuple):
    body: bytes | None = None


@pytest.mark.parametrize("header", [WithFloat, WithList, WithOptionalBytes])
def test_a_field_of_another_type_is_a_mistake_of_the_class(header: type[tuple[Any, ...]]) -> None:
    with pytest.raises(TypeError, match="a header field cannot be"):
        codec(header)


# --- reading


def test_what_is_absent_has_its_default() -> None:
    assert read() == SAMPLE == Sample("T", 3, 7, False, None, None, -1, None, True, 0)


def test_every_field_is_read_under_its_own_name() -> None:
    header = read(clientID="c", maxNums="1", bornTimestamp="2", isOrder="true", committed="false", index="3")
    assert header == Sample("T", 3, 7, False, "c", 1, 2, True, False, 3)


def test_unknown_fields_and_other_cases_are_ignored() -> None:
    assert read(bname="b", clientId="x", QueueId="9", queue_id="9", index_at="9") == SAMPLE


def test_ext_fields_may_be_any_mapping() -> None:
    assert decode_header(Sample, MappingProxyType(REQUIRED)) == SAMPLE


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_field_is_named(name: str) -> None:
    with pytest.raises(HeaderFieldError, match=f"header field '{name}' is missing") as caught:
        decode_header(Sample, {key: value for key, value in REQUIRED.items() if key != name})
    assert caught.value.field == name
    assert isinstance(caught.value, RemoteProtocolError)


def test_the_first_bad_field_of_the_class_is_named() -> None:
    with pytest.raises(HeaderFieldError) as caught:
        decode_header(Sample, {"queueOffset": "x", "topic": "T", "queueId": "y"})
    assert caught.value.field == "queueId"


@pytest.mark.parametrize("text", ["", "any text", " ", "0", "标签 😀"])
def test_text_is_taken_as_it_is(text: str) -> None:
    header = read(topic=text, clientID=text)
    assert (header.topic, header.client_id) == (text, text)


INTEGERS = [
    ("0", 0),
    ("-0", 0),
    ("+0", 0),
    ("+1", 1),
    ("-1", -1),
    ("1024", 1024),
    ("007", 7),
    ("-007", -7),
    ("00000000000000000000000000000001", 1),
    ("+00000000000000000000000000000001", 1),
    ("2147483647", 2**31 - 1),
    ("-2147483648", -(2**31)),
    ("+2147483647", 2**31 - 1),
    ("٣", 3),  # Java, too, takes every decimal digit that Unicode has
]
NO_INTEGERS = ["", " ", " 0", "0 ", "1.0", "1,0", "1_000", "+", "-", "--1", "+-1", "0x1", "1e3", "1L", "²", "x", "null"]


@pytest.mark.parametrize(("text", "number"), INTEGERS)
def test_integers_are_read_as_by_java(text: str, number: int) -> None:
    header = read(queueId=text, queueOffset=text, maxNums=text, bornTimestamp=text)
    assert (header.queue_id, header.queue_offset, header.max_nums, header.born_timestamp) == (number,) * 4


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2147483648", 2**31),
        ("999999999999999999", 10**18 - 1),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0009223372036854775807", 2**63 - 1),
    ],
)
def test_an_int64_holds_what_an_int32_does_not(text: str, number: int) -> None:
    header = read(queueOffset=text, bornTimestamp=text)
    assert (header.queue_offset, header.born_timestamp) == (number, number)
    with pytest.raises(HeaderFieldError):
        read(queueId=text)


@pytest.mark.parametrize("text", [*NO_INTEGERS, "2147483648", "-2147483649", "+2147483648", "9" * 5000])
@pytest.mark.parametrize("name", ["queueId", "maxNums"])
def test_an_int32_that_is_none_is_refused(name: str, text: str) -> None:
    with pytest.raises(HeaderFieldError, match=f"header field '{name}' is no int32") as caught:
        read(**{name: text})
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize(
    "text", [*NO_INTEGERS, "9223372036854775808", "-9223372036854775809", "18446744073709551615", "9" * 5000]
)
@pytest.mark.parametrize("name", ["queueOffset", "bornTimestamp", "index"])
def test_an_int64_that_is_none_is_refused(name: str, text: str) -> None:
    with pytest.raises(HeaderFieldError, match=f"header field '{name}' is no int64"):
        read(**{name: text})


@given(st.integers(-(2**33), 2**33) | st.integers(-(2**66), 2**66))
def test_the_ranges_of_integers_are_exact(number: int) -> None:
    for name, bits in (("queueId", 32), ("queueOffset", 64)):
        if -(1 << bits - 1) <= number < 1 << bits - 1:
            assert number in read(**{name: str(number)})
        else:
            with pytest.raises(HeaderFieldError):
                read(**{name: str(number)})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("TRUE", True),
        ("True", True),
        ("tRuE", True),
        ("false", False),
        ("False", False),
        ("", False),
        ("1", False),
        ("0", False),
        ("yes", False),
        (" true", False),
        ("true ", False),
        ("truely", False),
    ],
)
def test_only_the_word_true_is_true(text: str, value: bool) -> None:
    header = read(unitMode=text, isOrder=text, committed=text)
    assert (header.unit_mode, header.is_order, header.committed) == (value, value, value)


@given(st.dictionaries(st.sampled_from([field.wire for field in codec(Sample).fields]), st.text(max_size=8)))
def test_any_text_gives_a_header_or_names_a_field(ext_fields: dict[str, str]) -> None:
    try:
        header = decode_header(Sample, ext_fields)
    except HeaderFieldError as error:
        named = error.field
    else:
        assert decode_header(Sample, encode_header(header)) == header
        return
    assert named in REQUIRED.keys() | ext_fields.keys()


# --- writing


def test_values_are_written_as_java_writes_them() -> None:
    header = Sample("T", -3, 2**63 - 1, True, "", 0, -1, False, False, 5)
    assert encode_header(header) == {
        "topic": "T",
        "queueId": "-3",
        "queueOffset": "9223372036854775807",
        "unitMode": "true",
        "clientID": "",
        "maxNums": "0",
        "bornTimestamp": "-1",
        "isOrder": "false",
        "committed": "false",
        "index": "5",
    }


def test_none_is_left_out_and_a_default_is_written() -> None:
    defaults = {"bornTimestamp": "-1", "committed": "true", "index": "0"}
    assert encode_header(SAMPLE) == REQUIRED | defaults


class Level(IntEnum):
    THREE = 3


class Name(StrEnum):
    TOPIC = "T"


def test_members_of_enums_are_written_as_their_values() -> None:
    assert encode_header(Sample(Name.TOPIC, Level.THREE, Level.THREE, True))["queueId"] == "3"
    assert encode_header(Sample(Name.TOPIC, Level.THREE, Level.THREE, True))["topic"] == "T"


@given(
    st.builds(
        Sample,
        st.text(),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(-(2**63), 2**63 - 1),
        st.booleans(),
        st.none() | st.text(),
        st.none() | st.integers(-(2**31), 2**31 - 1),
        st.integers(-(2**63), 2**63 - 1),
        st.none() | st.booleans(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
    )
)
def test_headers_survive_the_round_trip(header: Sample) -> None:
    assert decode_header(Sample, encode_header(header)) == header


@pytest.mark.parametrize(
    ("attribute", "value", "kind"),
    [
        ("queue_id", 2**31, "int32"),
        ("queue_id", -(2**31) - 1, "int32"),
        ("max_nums", 2**31, "int32"),
        ("queue_offset", 2**63, "int64"),
        ("queue_offset", -(2**63) - 1, "int64"),
        ("born_timestamp", 2**100, "int64"),
        ("queue_id", "3", "int32"),
        ("queue_id", None, "int32"),
        ("queue_id", 3.0, "int32"),
        ("queue_offset", 1e300, "int64"),
        ("max_nums", "", "int32"),
        ("max_nums", [], "int32"),
        ("topic", None, "text"),
        ("topic", 3, "text"),
        ("topic", b"T", "text"),
        ("client_id", 3, "text"),
        ("unit_mode", None, "boolean"),
        ("unit_mode", "false", "boolean"),
        ("is_order", 0, "boolean"),
    ],
)
def test_a_value_that_cannot_be_sent_is_the_callers_mistake_and_named(attribute: str, value: Any, kind: str) -> None:
    with pytest.raises(LocalProtocolError, match=rf"^{attribute} = .* is no {kind}$"):
        encode_header(SAMPLE._replace(**{attribute: value}))


def test_a_default_of_none_may_be_none_and_others_may_be_left_out() -> None:
    assert "committed" not in encode_header(SAMPLE._replace(committed=None))  # type: ignore[arg-type]


def test_a_member_of_an_enum_does_not_slow_the_search_for_the_culprit() -> None:
    """A range looks for whatever is not a plain integer by counting up to it."""
    with pytest.raises(LocalProtocolError, match="queue_offset = None is no int64"):
        encode_header(SAMPLE._replace(queue_id=Level.THREE, queue_offset=None))  # type: ignore[arg-type]
