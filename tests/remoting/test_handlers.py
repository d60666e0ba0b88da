"""What becomes of a request: a handler's answer, refusal, promise or failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pocketmq.protocol.codes import Encoding, Language, RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import LocalProtocolError, RemoteProtocolError
from pocketmq.protocol.framing import MAX_FRAME, FrameDecoder
from pocketmq.protocol.headers.consume import PullMessageResponse
from pocketmq.protocol.headers.namesrv import GetRouteInfoRequest
from pocketmq.remoting.channel import Channel
from pocketmq.remoting.errors import Refusal
from pocketmq.remoting.handlers import Answer, Dispatcher, Handler, Later, Request

ROUTE = int(RequestCode.GET_ROUTEINFO_BY_TOPIC)
OFFSET = int(RequestCode.GET_MAX_OFFSET)  # its header has a number that is required
ENCODINGS = list(Encoding)


def request_of(code: int = ROUTE, fields: Mapping[str, str] | None = None, **changes: Any) -> Command:
    ext_fields = {"topic": "T", "queueId": "3"} if fields is None else fields
    return Command(code, ext_fields, opaque=77, language=Language.JAVA)._replace(**changes)


def dispatch(handler: Handler, *commands: Command, channel: Channel | None = None) -> list[Command]:
    """The answers that are in the channel's outbox once the commands were dispatched."""
    channel = channel or Channel(("10.0.0.1", 5555))
    dispatcher = Dispatcher({ROUTE: handler, OFFSET: handler})
    for command in commands:
        dispatcher(command, channel)
    return answers_of(channel)


def answers_of(channel: Channel) -> list[Command]:
    return list(FrameDecoder().feed(channel.take_outbox()))


def accept(request: Request[Any]) -> Answer:
    return request.reply(body=b"fine")


def refuse(request: Request[Any]) -> Answer:
    raise Refusal(ResponseCode.TOPIC_NOT_EXIST, "no such topic")


def find_the_body_broken(request: Request[Any]) -> Answer:
    raise RemoteProtocolError("the body is no JSON")


def fail(request: Request[Any]) -> Answer:
    raise ZeroDivisionError("a secret of the server")


# --- answers at once


def test_a_handler_gets_the_command_the_typed_header_and_the_channel() -> None:
    seen: list[Request[Any]] = []
    channel, command = Channel(("10.0.0.1", 5555)), request_of(body=b"body")

    def remember(request: Request[Any]) -> Answer:
        seen.append(request)
        return request.reply()

    dispatch(remember, command, channel=channel)
    assert seen == [Request(command, GetRouteInfoRequest("T"), channel)]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_answer_has_the_number_and_the_encoding_of_its_request(encoding: Encoding) -> None:
    (answer,) = dispatch(accept, request_of(encoding=encoding, opaque=-5))
    assert answer == Command(ResponseCode.SUCCESS, body=b"fine", opaque=-5, flag=1, encoding=encoding)


def test_only_the_response_bit_is_set_in_an_answer() -> None:
    (answer,) = dispatch(accept, request_of(flag=0x7FFFFFFC))
    assert answer.flag == 1


def test_an_answer_carries_what_the_handler_gave() -> None:
    header = PullMessageResponse(suggest_which_broker_id=1, next_begin_offset=2, min_offset=3, max_offset=4)

    def answer_in_full(request: Request[Any]) -> Answer:
        return request.reply(header, memoryview(b"body"), code=ResponseCode.PULL_NOT_FOUND, remark="none yet")

    (answer,) = dispatch(answer_in_full, request_of())
    assert (answer.code, answer.remark, answer.body) == (ResponseCode.PULL_NOT_FOUND, "none yet", b"body")
    assert answer.ext_fields == {
        "suggestWhichBrokerId": "1",
        "nextBeginOffset": "2",
        "minOffset": "3",
        "maxOffset": "4",
    }


def test_the_answers_of_a_burst_are_in_the_order_of_its_requests() -> None:
    commands = [request_of(opaque=opaque) for opaque in (3, 1, 2)]
    assert [answer.opaque for answer in dispatch(accept, *commands)] == [3, 1, 2]


def test_a_handler_may_answer_nothing() -> None:
    assert dispatch(lambda request: None, request_of()) == []


# --- refusals and failures


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_unknown_request_is_answered_as_by_rocketmq(encoding: Encoding) -> None:
    (answer,) = dispatch(accept, request_of(9999, encoding=encoding))
    assert (answer.code, answer.remark) == (3, " request type 9999 not supported")
    assert (answer.opaque, answer.flag, answer.encoding) == (77, 1, encoding)


def test_a_known_request_without_a_handler_is_not_supported_either() -> None:
    (answer,) = dispatch(accept, request_of(RequestCode.HEART_BEAT))
    assert (answer.code, answer.remark) == (3, " request type 34 not supported")


def test_a_refusal_is_answered_with_its_code_and_remark(caplog: pytest.LogCaptureFixture) -> None:
    (answer,) = dispatch(refuse, request_of())
    assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "no such topic")
    assert caplog.records == []


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ({"topic": "T"}, "header field 'queueId' is missing"),
        ({"topic": "T", "queueId": "x"}, "header field 'queueId' is no int32: 'x'"),
        ({"topic": "T", "queueId": "1.0"}, "header field 'queueId' is no int32: '1.0'"),
        ({"topic": "T", "queueId": "\ud800"}, "header field 'queueId' is no int32: '\\ud800'"),
        ({"queueId": "1"}, "header field 'topic' is missing"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(fields: dict[str, str], remark: str) -> None:
    (answer,) = dispatch(fail, request_of(OFFSET, fields))
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)


def test_a_body_that_cannot_be_read_is_the_fault_of_the_peer(caplog: pytest.LogCaptureFixture) -> None:
    (answer,) = dispatch(find_the_body_broken, request_of())
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "the body is no JSON")
    assert caplog.records == []


def test_a_failure_is_logged_once_and_kept_from_the_peer(caplog: pytest.LogCaptureFixture) -> None:
    (answer,) = dispatch(fail, request_of())
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "internal error (ZeroDivisionError); the server's log has the details"
    (record,) = caplog.records
    assert record.getMessage().startswith("request 105 from <Channel 10.0.0.1:5555")
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "a secret of the server"


def test_an_answer_that_cannot_be_expressed_is_a_failure_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    def overflow(request: Request[Any]) -> Answer:
        return request.reply(PullMessageResponse(1 << 80, 0, 0, 0))

    (answer,) = dispatch(overflow, request_of())
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "internal error (LocalProtocolError); the server's log has the details"
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is LocalProtocolError


def test_an_answer_that_fits_into_no_frame_is_replaced_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    (answer,) = dispatch(lambda request: request.reply(body=bytes(MAX_FRAME)), request_of())
    assert (answer.code, answer.opaque, answer.body) == (ResponseCode.SYSTEM_ERROR, 77, b"")
    assert len(caplog.records) == 1


@pytest.mark.parametrize("handler", [accept, refuse, find_the_body_broken, fail])
@pytest.mark.parametrize("flag", [2, 6, -2])
def test_a_oneway_request_is_never_answered(handler: Handler, flag: int) -> None:
    assert dispatch(handler, request_of(flag=flag)) == []


@pytest.mark.parametrize("command", [request_of(9999, flag=2), request_of(OFFSET, {}, flag=2)])
def test_a_oneway_request_is_not_even_told_what_is_wrong_with_it(command: Command) -> None:
    assert dispatch(accept, command) == []


def test_the_failure_of_a_oneway_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    dispatch(fail, request_of(flag=2))
    assert len(caplog.records) == 1


def test_a_failure_does_not_touch_the_requests_behind_it() -> None:
    turns: list[Handler] = [fail, accept, refuse, accept]
    answers = dispatch(lambda request: turns.pop(0)(request), *[request_of()] * 4)
    assert [answer.code for answer in answers] == [1, 0, 17, 0]


LARGEST_PARSED = 1024 * 1024


@pytest.mark.parametrize(
    ("code", "size", "is_fine"),
    [
        (RequestCode.HEART_BEAT, LARGEST_PARSED, True),
        (RequestCode.HEART_BEAT, LARGEST_PARSED + 1, False),
        (RequestCode.UPDATE_BROKER_CONFIG, LARGEST_PARSED + 1, False),
        (RequestCode.GET_BROKER_RUNTIME_INFO, LARGEST_PARSED + 1, True),  # its body is nobody's business
    ],
)
def test_a_body_that_would_take_long_to_parse_is_refused(code: RequestCode, size: int, is_fine: bool) -> None:
    channel = Channel(("10.0.0.1", 5555))
    Dispatcher({code: accept})(request_of(code, body=bytes(size)), channel)
    (answer,) = answers_of(channel)
    refusal = (1, f"a body of {size} bytes; the limit is {LARGEST_PARSED}")
    assert (answer.code, answer.remark) == ((0, None) if is_fine else refusal)


# --- answers that come later


def hold(channel: Channel, command: Command) -> Later:
    """The promise that a handler made about a command."""
    held: list[Later] = []

    def promise(request: Request[Any]) -> Answer:
        held.append(request.later())
        return held[0]

    assert dispatch(promise, command, channel=channel) == []
    return held[0]


def test_promises_are_kept_in_any_order() -> None:
    channel = Channel(("10.0.0.1", 5555))
    first, second = (hold(channel, request_of(opaque=opaque)) for opaque in (1, 2))
    for later in (second, first):
        later.answer(later.request.reply(body=b"at last"))
    assert [(answer.opaque, answer.body) for answer in answers_of(channel)] == [(2, b"at last"), (1, b"at last")]


def test_the_first_answer_counts() -> None:
    channel = Channel(("10.0.0.1", 5555))
    later = hold(channel, request_of())
    for body in (b"first", b"second"):
        later.answer(later.request.reply(body=body))
    assert [answer.body for answer in answers_of(channel)] == [b"first"]
    assert "0 unanswered" in repr(channel)


def test_a_promise_about_a_oneway_request_ends_without_an_answer() -> None:
    channel = Channel(("10.0.0.1", 5555))
    later = hold(channel, request_of(flag=2))
    later.answer(later.request.reply())
    assert answers_of(channel) == []
    assert "0 unanswered" in repr(channel)


def test_a_promise_to_a_peer_that_has_gone_is_dropped() -> None:
    channel = Channel(("10.0.0.1", 5555))
    later = hold(channel, request_of())
    channel.end("gone")
    later.answer(later.request.reply())
    assert answers_of(channel) == []


def test_a_promise_that_is_kept_before_it_is_made_costs_nothing() -> None:
    channel = Channel(("10.0.0.1", 5555))

    def answer_at_once(request: Request[Any]) -> Answer:
        later = request.later()
        later.answer(request.reply(body=b"at once"))
        return later

    answers = dispatch(answer_at_once, request_of(), channel=channel)
    assert [answer.body for answer in answers] == [b"at once"]
    assert "0 unanswered" in repr(channel)


def test_a_handler_that_fails_after_a_promise_leaves_nothing_owed() -> None:
    channel = Channel(("10.0.0.1", 5555))

    def promise_and_fail(request: Request[Any]) -> Answer:
        request.later()
        raise Refusal(17, "no such topic")

    (answer,) = dispatch(promise_and_fail, request_of(), channel=channel)
    assert (answer.code, answer.remark) == (17, "no such topic")
    assert "0 unanswered" in repr(channel)


def test_a_promise_keeps_nothing_of_the_bytes_that_were_read() -> None:
    received = bytearray(b"a large burst")
    later = hold(Channel(("10.0.0.1", 5555)), request_of(body=memoryview(received)[2:7]))
    received.clear()  # raises a BufferError while there is a view
    assert later.request.command == request_of()
    assert later.request.header == GetRouteInfoRequest("T")


@pytest.mark.parametrize(
    ("command", "least"),
    [
        (request_of(fields={"topic": ""}), 1024),
        (request_of(body=bytes(100_000)), 100_000),
        (request_of(fields={"topic": "x" * 100_000}), 100_000),
        (request_of(fields={"topic": "", "x" * 100_000: ""}), 100_000),
        (request_of(fields={"topic": ""} | {str(number): "" for number in range(1000)}), 100_000),
        (request_of(remark="x" * 100_000), 100_000),
    ],
)
def test_a_promise_counts_all_that_a_request_may_bring(command: Command, least: int) -> None:
    channel = Channel(("10.0.0.1", 5555), max_unanswered=least - 1)
    later = hold(channel, command)
    owed = channel.owes_too_much
    later.answer(later.request.reply())
    assert (owed, channel.owes_too_much) == (True, False)
    assert "0 unanswered" in repr(channel)
