"""The AnyIO connection, on trio and on asyncio: against a server in memory, scripted ones, and the real one."""

from __future__ import annotations

import asyncio
import math
import re
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import trio
from anyio.abc import ByteStream
from scripted import (
    GARBAGE,
    PATIENCE,
    Address,
    Conversation,
    oneway,
    open_descriptors,
    question,
    real_server,
    scripted_server,
    tls_contexts,
)

from pocketmq.protocol.codes import Encoding, RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.protocol.headers.clients import ConsumerGroupRequest
from pocketmq.protocol.headers.namesrv import GetRouteInfoRequest
from pocketmq.remoting import channel as channel_module
from pocketmq.remoting.connection import Connection, connect, open_connection
from pocketmq.remoting.errors import (
    CongestedError,
    ConnectError,
    ConnectionLostError,
    Refusal,
    RemotingError,
    RequestTimeoutError,
)
from pocketmq.remoting.handlers import Answer, Handler, Later, Request

pytestmark = pytest.mark.anyio

JSON, MSGPACK = int(Encoding.JSON), int(Encoding.MSGPACK)
ECHO = RequestCode.GET_BROKER_RUNTIME_INFO
CHANGED = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
GROUP = ConsumerGroupRequest("G")
SOON = 0.03  # a timeout that is meant to pass
ACCEPTED = {"PMQ_SER": "2", "PMQ_CAP": "records,bulk"}


@pytest.fixture(params=["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_each_test_runs_on_the_event_loop_it_is_named_after(anyio_backend_name: str) -> None:
    try:
        asyncio.get_running_loop()
        on_asyncio = True
    except RuntimeError:
        on_asyncio = False
    expected = {"trio": (True, False), "asyncio": (False, True)}
    assert (trio.lowlevel.in_trio_run(), on_asyncio) == expected[anyio_backend_name]


class MemoryStream(ByteStream):
    """The client's end of a connection whose server is the test."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.reads = 0
        self.is_closed = False
        self.takes_writes = True
        self.write_error: Exception | None = None
        self._decoder = FrameDecoder()
        self._from_client: deque[Command] = deque()
        self._to_client: deque[bytes | Exception] = deque()
        self._stirred = anyio.Event()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await anyio.lowlevel.checkpoint()
        await self._until(lambda: bool(self._to_client))
        self.reads += 1
        item = self._to_client.popleft()
        if isinstance(item, Exception):
            raise item
        assert len(item) <= max_bytes
        return item

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        await self._until(lambda: self.takes_writes)
        if self.write_error is not None:
            raise self.write_error
        self.writes.append(item)
        self._from_client.extend(self._decoder.feed(item))
        self._stir()

    async def send_eof(self) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        self.is_closed = True
        await anyio.lowlevel.checkpoint()

    # --- the server's side

    async def read(self, count: int) -> list[Command]:
        """The next commands of the client."""
        with anyio.fail_after(PATIENCE):
            await self._until(lambda: len(self._from_client) >= count)
        return [self._from_client.popleft() for _ in range(count)]

    def give(self, *what: Command | bytes | Exception) -> None:
        """Let the client receive these, one at a time."""
        self._to_client.extend(encode_frame(item) if isinstance(item, Command) else item for item in what)
        self._stir()

    def take_writes(self, takes_writes: bool) -> None:
        """Whether what the client sends is taken."""
        self.takes_writes = takes_writes
        self._stir()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._stirred.wait()

    def _stir(self) -> None:
        self._stirred.set()
        self._stirred = anyio.Event()


@asynccontextmanager
async def connected(stream: ByteStream, **options: Any) -> AsyncIterator[Connection]:
    connection = Connection(stream, ("server", 9876), **options)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        yield connection
        connection.close()


Outcome = Command | RemotingError | None


async def outcome_of(request: Awaitable[Command]) -> Outcome:
    try:
        return await request
    except RemotingError as error:
        return error


@asynccontextmanager
async def asking(connection: Connection, count: int, timeout: float = PATIENCE) -> AsyncIterator[list[Outcome]]:
    """Requests 0, 1, 2 … are under way, each in a task of its own; when the block ends, all outcomes are there."""
    outcomes: list[Outcome] = [None] * count

    async def ask(index: int) -> None:
        outcomes[index] = await outcome_of(connection.request(ECHO, body=b"%d" % index, timeout=timeout))

    async with anyio.create_task_group() as tasks:
        for index in range(count):
            tasks.start_soon(ask, index)
        yield outcomes


def echo(request: Command) -> Command:
    return request.reply(0, body=request.body)


def bodies(outcomes: Sequence[Outcome]) -> list[bytes]:
    assert all(isinstance(outcome, Command) for outcome in outcomes)
    return [bytes(outcome.body) for outcome in outcomes if isinstance(outcome, Command)]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % index for index in range(count)]


async def check_usable(connection: Connection, stream: MemoryStream) -> None:
    """Nobody waits any more, and a request still gets its answer."""
    assert "0 pending" in repr(connection)
    async with asking(connection, 1) as outcomes:
        stream.give(*map(echo, await stream.read(1)))
    assert bodies(outcomes) == [b"0"]
    assert "0 pending" in repr(connection)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread is about to do."""
    with anyio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.01)


# --- many requests at once


async def test_answers_out_of_order_reach_the_right_waiters() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection:
        async with asking(connection, 400) as outcomes:
            requests = await stream.read(400)
            assert "400 pending" in repr(connection)
            stream.give(*(echo(request) for request in reversed(requests)))
        assert bodies(outcomes) == numbers(400)
        await check_usable(connection, stream)


async def test_requests_that_gather_during_a_write_leave_in_the_next_one() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection:
        stream.take_writes(False)
        connection.notify(ECHO)
        await anyio.wait_all_tasks_blocked()
        async with asking(connection, 300) as outcomes:
            await anyio.wait_all_tasks_blocked()
            stream.take_writes(True)
            _, *requests = await stream.read(301)
            assert len(stream.writes) == 2
            stream.give(b"".join(encode_frame(echo(request)) for request in requests))
        assert bodies(outcomes) == numbers(300)


async def test_a_burst_of_requests_leaves_in_few_writes() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection, asking(connection, 300):
        stream.give(*map(echo, await stream.read(300)))
    assert len(stream.writes) <= 3


async def test_one_piece_may_wake_all_and_a_byte_at_a_time_does_too() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection:
        for size in (100_000, 1):
            async with asking(connection, 20) as outcomes:
                data = b"".join(encode_frame(echo(request)) for request in await stream.read(20))
                stream.give(*(data[start : start + size] for start in range(0, len(data), size)))
            assert bodies(outcomes) == numbers(20)


async def test_a_second_answer_and_an_answer_to_nothing_are_dropped() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection:
        async with asking(connection, 2) as outcomes:
            first, second = await stream.read(2)
            stream.give(echo(first), echo(first), echo(first._replace(opaque=999_999)), echo(second))
        assert sorted(bodies(outcomes)) == numbers(2)
        await check_usable(connection, stream)


async def test_hundreds_of_tasks_share_a_connection_to_the_real_server() -> None:
    with real_server({ECHO: lambda request: request.reply(body=request.command.body)}) as address:
        async with open_connection(*address) as connection:
            for _ in range(2):  # the second time in msgpack
                async with asking(connection, 300) as outcomes:
                    pass
                assert bodies(outcomes) == numbers(300)
            assert "0 pending" in repr(connection)


# --- those who wait no longer


async def test_a_timeout_names_the_request_and_leaves_nothing_behind() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection:
        with pytest.raises(RequestTimeoutError, match="server:9876 did not answer request 28 in time"):
            await connection.request(ECHO, timeout=SOON)
        assert "0 pending" in repr(connection)
        stream.give(*map(echo, await stream.read(1)))  # too late
        await check_usable(connection, stream)


@pytest.mark.parametrize("timeout", [0.0, -1.0])
async def test_no_time_at_all_is_a_timeout_too(timeout: float) -> None:
    async with connected(MemoryStream()) as connection:
        with pytest.raises(RequestTimeoutError):
            await connection.request(ECHO, timeout=timeout)
        assert "0 pending" in repr(connection)


async def test_a_cancelled_request_leaves_nothing_behind() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection:
        with anyio.move_on_after(SOON) as scope:
            await connection.request(ECHO, timeout=math.inf)
        assert scope.cancelled_caught
        assert "0 pending" in repr(connection)
        stream.give(*map(echo, await stream.read(1)))
        await check_usable(connection, stream)


async def test_a_later_request_with_an_earlier_deadline_times_out_first() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection, asking(connection, 3) as patient:
        requests = await stream.read(3)
        with anyio.fail_after(PATIENCE / 2), pytest.raises(RequestTimeoutError):
            await connection.request(ECHO, timeout=SOON)
        assert "3 pending" in repr(connection)
        stream.give(*map(echo, requests))
    assert bodies(patient) == numbers(3)


async def test_every_deadline_is_kept_whatever_the_order_in_which_they_were_set() -> None:
    async with connected(MemoryStream()) as connection, anyio.create_task_group() as tasks:
        outcomes: list[Outcome] = []

        async def ask(timeout: float) -> None:
            outcomes.append(await outcome_of(connection.request(ECHO, timeout=timeout)))

        with anyio.fail_after(PATIENCE):
            for timeout in (0.06, 0.02, 0.1, 0.04):
                tasks.start_soon(ask, timeout)
            await until(lambda: len(outcomes) == 4)
        assert {type(outcome) for outcome in outcomes} == {RequestTimeoutError}


async def test_a_deadline_nobody_waits_for_any_more_ends_nobody_elses_wait() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection:
        opaque = connection.begin(ECHO, done=lambda _: None, deadline=anyio.current_time() + SOON)
        connection.withdraw(opaque)
        async with asking(connection, 1) as outcomes:
            _, request = await stream.read(2)
            await anyio.sleep(3 * SOON)  # the watch over the first deadline has looked and found nothing
            stream.give(echo(request))
        assert bodies(outcomes) == [b"0"]


# --- what the server asks


async def test_a_notification_of_the_server_is_handled_and_not_answered() -> None:
    stream, seen = MemoryStream(), list[ConsumerGroupRequest]()

    def changed(request: Request[ConsumerGroupRequest]) -> Answer:
        seen.append(request.header)
        return request.reply()

    async with connected(stream, handlers={CHANGED: changed}) as connection:
        stream.give(oneway(CHANGED, GROUP))
        await check_usable(connection, stream)
    assert seen == [GROUP]
    assert len(stream.writes) == 1


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_a_question_of_the_server_is_answered_in_its_own_encoding(encoding: Encoding) -> None:
    stream = MemoryStream()
    async with connected(stream, handlers={CHANGED: lambda request: request.reply(request.header, b"body")}):
        stream.give(question(CHANGED, GROUP, opaque=77)._replace(encoding=int(encoding)))
        (answer,) = await stream.read(1)
    assert (answer.code, answer.opaque, answer.encoding) == (0, 77, encoding)
    assert answer.is_response
    assert (answer.ext_fields, bytes(answer.body)) == ({"consumerGroup": "G"}, b"body")


async def test_a_question_may_be_answered_later() -> None:
    stream, promises = MemoryStream(), list[Later]()

    def changed(request: Request[Any]) -> Answer:
        promises.append(request.later())
        return promises[-1]

    async with connected(stream, handlers={CHANGED: changed}) as connection:
        stream.give(*(question(CHANGED, GROUP, opaque=opaque) for opaque in (1, 2)))
        await check_usable(connection, stream)
        for promise in reversed(promises):
            promise.answer(promise.request.reply())
        assert [answer.opaque for answer in await stream.read(2)] == [2, 1]


async def test_a_code_without_a_handler_is_answered_as_rocketmq_does() -> None:
    stream = MemoryStream()
    async with connected(stream):
        stream.give(question(4711, opaque=5))
        (answer,) = await stream.read(1)
    assert (answer.code, answer.opaque) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 5)
    assert answer.remark == " request type 4711 not supported"


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (Refusal(ResponseCode.NO_PERMISSION, "not you"), ResponseCode.NO_PERMISSION, "not you"),
        (ValueError("secret"), ResponseCode.SYSTEM_ERROR, "internal error (ValueError)"),
    ],
)
async def test_a_handler_that_fails_answers_and_the_connection_goes_on(
    error: Exception, code: int, remark: str
) -> None:
    def changed(request: Request[Any]) -> Answer:
        raise error

    stream = MemoryStream()
    async with connected(stream, handlers={CHANGED: changed}) as connection:
        stream.give(question(CHANGED, GROUP))
        (answer,) = await stream.read(1)
        assert answer.code == code
        assert (answer.remark or "").startswith(remark)
        await check_usable(connection, stream)


async def test_both_sides_may_use_the_same_number() -> None:
    stream = MemoryStream()
    async with connected(stream, handlers={CHANGED: lambda request: request.reply(body=b"ours")}) as connection:
        async with asking(connection, 1) as outcomes:
            (request,) = await stream.read(1)
            stream.give(question(CHANGED, GROUP, opaque=request.opaque))
            (answer,) = await stream.read(1)
            assert (answer.opaque, bytes(answer.body)) == (request.opaque, b"ours")
            stream.give(request.reply(0, body=b"theirs"))
        assert bodies(outcomes) == [b"theirs"]


async def test_the_real_server_asks_back_before_it_answers() -> None:
    def serve(request: Request[Any]) -> Answer:
        promise = request.later()
        request.channel.begin(
            CHANGED, GROUP, done=lambda answer: promise.answer(request.reply(body=b"".join(bodies([answer]))))
        )
        return promise

    with real_server({ECHO: serve}) as address:
        handler: Handler = lambda request: request.reply(body=request.header.consumer_group.encode())  # noqa: E731
        async with open_connection(*address, handlers={CHANGED: handler}) as connection:
            answer = await connection.request(ECHO, timeout=PATIENCE)
    assert bytes(answer.body) == b"G"


async def test_while_too_much_is_promised_nothing_is_read() -> None:
    stream, promises = MemoryStream(), list[Later]()

    def changed(request: Request[Any]) -> Answer:
        promises.append(request.later())
        return promises[-1]

    async with connected(stream, handlers={CHANGED: changed}) as connection:
        connection._max_unanswered = 3000
        stream.give(*(question(CHANGED, GROUP, opaque=opaque) for opaque in range(20)))
        await anyio.wait_all_tasks_blocked()
        assert stream.reads == len(promises) == 3
        for opaque in range(20):
            promises[opaque].answer(promises[opaque].request.reply())
            (answer,) = await stream.read(1)
            assert answer.opaque == opaque


async def test_a_server_that_asks_without_taking_its_answers_is_not_read_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel_module, "MAX_FRAME", 1000)
    stream = MemoryStream()
    async with connected(stream) as connection:
        connection._max_outgoing = 1000
        stream.take_writes(False)
        stream.give(*(question(4711, opaque=opaque) for opaque in range(500)))
        await anyio.wait_all_tasks_blocked()
        assert connection.outgoing < 4000
        assert stream.reads < 50
        stream.take_writes(True)
        assert [answer.opaque for answer in await stream.read(500)] == list(range(500))


# --- connections that break


def first_half(request: Command) -> bytes:
    frame = encode_frame(echo(request))
    return frame[: len(frame) // 2]


def reset() -> Exception:
    error = anyio.BrokenResourceError()
    error.__cause__ = ConnectionResetError(104, "as the event loop puts it")
    return error


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        pytest.param([anyio.EndOfStream()], "the server closed the connection before", id="end"),
        pytest.param([reset()], r"the connection broke \(Connection reset by peer\)", id="reset"),
        pytest.param([GARBAGE], r"the server's bytes make no sense \(unknown header encoding 9\)", id="garbage"),
        pytest.param([b"HTTP/1.1 400 Bad Request\r\n"], "the server's bytes make no sense", id="another protocol"),
        pytest.param(
            [first_half(question(ECHO)), anyio.EndOfStream()], "closed the connection within a frame", id="half a frame"
        ),
        pytest.param([ssl.SSLError(1, "bad record mac")], r"the connection broke \(.*bad record mac", id="TLS"),
        pytest.param([anyio.ClosedResourceError()], r"the connection broke \(ClosedResourceError\)", id="closed"),
    ],
)
async def test_a_broken_connection_tells_everyone_who_waits_why(last: list[bytes | Exception], reason: str) -> None:
    stream = MemoryStream()
    connection = Connection(stream, ("server", 9876))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        async with asking(connection, 50) as outcomes:
            first, *_ = await stream.read(50)
            stream.give(echo(first), *last)  # what came before still counts
    assert bodies([outcomes.pop(int(bytes(first.body)))]) == [first.body]
    for outcome in outcomes:
        assert isinstance(outcome, ConnectionLostError)
        assert re.search(reason, str(outcome))
        assert outcome.__cause__ is not None
    assert stream.is_closed  # and `run` has returned, else the task group would still wait
    assert repr(connection) == "<Connection server:9876 closed, 0 pending>"
    with pytest.raises(ConnectionLostError, match="server:9876 has ended"):
        await connection.request(ECHO, timeout=math.inf)
    with pytest.raises(ConnectionLostError):
        connection.notify(ECHO)


async def test_a_write_that_fails_ends_the_connection_too() -> None:
    stream = MemoryStream()
    stream.write_error = reset()
    async with connected(stream) as connection:
        async with asking(connection, 5) as outcomes:
            pass
        assert [str(outcome) for outcome in outcomes] == [
            "server:9876: the connection broke (Connection reset by peer) before it answered request 28"
        ] * 5


async def test_a_mistake_of_the_caller_does_not_end_the_connection() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection:
        with pytest.raises(Exception, match="a frame holds 16777216 bytes"):
            await connection.request(ECHO, body=bytes(16 * 1024 * 1024), timeout=PATIENCE)
        await check_usable(connection, stream)


def close_at_once(conversation: Conversation) -> None:
    conversation.read()


def close_hard(conversation: Conversation) -> None:
    conversation.read()
    conversation.reset()


def send_garbage(conversation: Conversation) -> None:
    conversation.read()
    conversation.send(GARBAGE)
    conversation.fall_silent()


def send_half(conversation: Conversation) -> None:
    conversation.send(first_half(conversation.read()))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (close_at_once, "the server closed the connection before"),
        (close_hard, r"the connection broke \(Connection reset by peer\)"),
        (send_garbage, "the server's bytes make no sense"),
        (send_half, "the server closed the connection within a frame"),
    ],
)
async def test_the_network_breaks_connections_in_the_same_ways(
    script: Callable[[Conversation], None], reason: str
) -> None:
    with scripted_server(script) as address:
        async with open_connection(*address) as connection:
            with pytest.raises(ConnectionLostError, match=reason):
                await connection.request(ECHO, timeout=PATIENCE)
            with pytest.raises(ConnectionLostError):
                await connection.request(ECHO, timeout=PATIENCE)


# --- the end of a connection


async def test_close_ends_every_wait() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection:
        async with asking(connection, 10) as outcomes:
            await stream.read(10)
            connection.close()
        assert {str(outcome) for outcome in outcomes} == {
            "server:9876: the connection was closed before it answered request 28"
        }
    assert stream.is_closed


async def test_a_connection_may_be_closed_before_it_has_begun_to_run() -> None:
    stream = MemoryStream()
    connection = Connection(stream, ("server", 9876))
    connection.close()
    with anyio.fail_after(PATIENCE):
        await connection.run()
    assert stream.is_closed
    assert connection.closed


async def test_cancelling_the_run_ends_every_wait_and_every_task() -> None:
    stream, tasks_before = MemoryStream(), len(anyio.get_running_tasks())
    connection = Connection(stream, ("server", 9876))
    scope = anyio.CancelScope()

    async def run() -> None:
        with scope:
            await connection.run()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        async with asking(connection, 10) as outcomes:
            await stream.read(10)
            scope.cancel()
    assert [type(outcome) for outcome in outcomes] == [ConnectionLostError] * 10
    assert stream.is_closed
    assert len(anyio.get_running_tasks()) == tasks_before


async def test_flush_returns_when_everything_has_left() -> None:
    stream, flushed = MemoryStream(), list[int]()
    async with connected(stream) as connection:
        await connection.flush()  # there is nothing to wait for
        stream.take_writes(False)
        connection.notify(ECHO)

        async def flush() -> None:
            await connection.flush()
            flushed.append(len(stream.writes))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flush)
            await anyio.wait_all_tasks_blocked()
            connection.notify(ECHO)
            assert flushed == []
            stream.take_writes(True)
        assert flushed == [2]
        assert connection.outgoing == 0


async def test_flush_returns_when_the_connection_has_ended() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection:
        stream.take_writes(False)
        connection.notify(ECHO)
        stream.give(anyio.EndOfStream())
        with anyio.fail_after(PATIENCE):
            await connection.flush()
        assert connection.closed


async def test_what_was_sent_in_the_block_arrives_though_nobody_waits_for_it() -> None:
    arrived: list[bytes] = []

    def script(conversation: Conversation) -> None:
        while True:
            arrived.append(bytes(conversation.read().body))

    with scripted_server(script) as address:
        async with open_connection(*address) as connection:
            for index in range(100):
                connection.notify(ECHO, body=b"%d" % index * 1000)
    assert arrived == [number * 1000 for number in numbers(100)]


async def test_a_server_that_takes_nothing_does_not_hold_up_the_end_of_the_block() -> None:
    with scripted_server(Conversation.fall_silent, receive_buffer=4096) as address:
        with anyio.fail_after(PATIENCE):
            async with open_connection(*address, timeout=0.2) as connection:
                connection.notify(ECHO, body=bytes(15_000_000))
        assert connection.closed


class Unforeseen(Exception):
    pass


@pytest.mark.parametrize(
    "error",
    [
        Unforeseen("in the block"),
        RequestTimeoutError("in the block"),
        ExceptionGroup("of the user", [Unforeseen()]),
        SystemExit(3),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_exception_of_the_block_comes_out_as_it_is(error: BaseException) -> None:
    with scripted_server(Conversation.serve) as address:
        connections: list[Connection] = []
        with pytest.raises(type(error)) as info:
            await fail_in_a_block(address, error, connections)
        assert info.value is error
        assert connections[0].closed


async def fail_in_a_block(address: Address, error: BaseException, connections: list[Connection]) -> None:
    async with open_connection(*address) as connection:
        connections.append(connection)
        await connection.request(ECHO, timeout=PATIENCE)
        raise error


async def test_a_lost_connection_comes_out_of_the_block_as_it_is() -> None:
    with scripted_server(close_at_once) as address, pytest.raises(ConnectionLostError):
        async with open_connection(*address) as connection:
            await connection.request(ECHO, timeout=PATIENCE)


async def test_a_block_can_be_cancelled() -> None:
    with scripted_server(Conversation.fall_silent) as address:
        with anyio.CancelScope() as scope:
            async with open_connection(*address) as connection:
                scope.deadline = anyio.current_time() + SOON
                await connection.request(ECHO, timeout=math.inf)
        assert scope.cancelled_caught
        assert connection.closed


async def closes(address: Address) -> None:
    async with open_connection(*address) as connection:
        await connection.request(ECHO, timeout=PATIENCE)


async def fails(address: Address) -> None:
    with pytest.raises(Unforeseen):
        async with open_connection(*address):
            raise Unforeseen


async def is_cancelled(address: Address) -> None:
    with anyio.CancelScope() as scope:
        async with open_connection(*address) as connection:
            connection.notify(ECHO)
            scope.cancel()
            await anyio.sleep_forever()


async def has_a_handler_for_no_request(address: Address) -> None:
    with pytest.raises(KeyError):
        async with open_connection(*address, handlers={4711: lambda request: None}):
            pass


@pytest.mark.parametrize("use", [closes, fails, is_cancelled, has_a_handler_for_no_request])
async def test_many_connections_leave_no_task_and_no_descriptor(use: Callable[[Address], Awaitable[None]]) -> None:
    with scripted_server(Conversation.serve) as address:
        await use(address)  # what the event loop sets up for the first one stays
        descriptors, tasks = open_descriptors(), len(anyio.get_running_tasks())
        for _ in range(20):
            await use(address)
        await until(lambda: open_descriptors() <= descriptors)
        assert len(anyio.get_running_tasks()) == tasks


# --- a server that does not read


async def test_what_is_kept_for_a_server_that_takes_nothing_is_bounded() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection:
        connection._max_outgoing = 1000
        stream.take_writes(False)
        async with asking(connection, 50, timeout=SOON) as outcomes:
            await anyio.wait_all_tasks_blocked()
            assert connection.outgoing < 1500
        texts = {str(outcome) for outcome in outcomes}
        assert {type(outcome) for outcome in outcomes} == {RequestTimeoutError}
        assert texts == {
            "server:9876 did not answer request 28 in time",
            "server:9876 did not take request 28 within 0.03 s",
        }
        with pytest.raises(CongestedError):
            connection.notify(ECHO)
        assert "0 pending" in repr(connection)


async def test_requests_wait_for_their_turn_while_the_server_is_slow() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection:
        connection._max_outgoing = 1000
        stream.take_writes(False)
        async with asking(connection, 100) as outcomes:
            await anyio.wait_all_tasks_blocked()
            stream.take_writes(True)
            for _ in range(100):
                stream.give(*map(echo, await stream.read(1)))
        assert bodies(outcomes) == numbers(100)
        assert max(map(len, stream.writes)) < 1500


async def test_requests_that_wait_for_their_turn_are_told_of_the_end_too() -> None:
    stream = MemoryStream()
    async with connected(stream) as connection:
        connection._max_outgoing = 1000
        stream.take_writes(False)
        async with asking(connection, 50) as outcomes:
            await anyio.wait_all_tasks_blocked()
            stream.give(anyio.EndOfStream())
        assert {type(outcome) for outcome in outcomes} == {ConnectionLostError}


async def test_a_socket_that_nobody_reads_bounds_what_is_kept() -> None:
    body = bytes(100_000)
    with scripted_server(Conversation.fall_silent, receive_buffer=4096) as address:
        async with open_connection(*address, timeout=SOON) as connection:
            connection._max_outgoing = 500_000
            outcomes: list[Outcome] = []

            async def ask() -> None:
                outcomes.append(await outcome_of(connection.request(ECHO, body=body, timeout=0.3)))

            async with anyio.create_task_group() as tasks:
                for _ in range(200):
                    tasks.start_soon(ask)
            assert {type(outcome) for outcome in outcomes} == {RequestTimeoutError}
            assert connection.outgoing < 700_000
            assert "0 pending" in repr(connection)


# --- no connection


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_refused_connection_says_so_and_where_to_look(host: str) -> None:
    port = unused_port()
    with pytest.raises(ConnectError) as info:
        await connect(host, port, timeout=PATIENCE)
    assert str(info.value) == f"no connection to {host}:{port}: Connection refused; is it running?"
    assert isinstance(info.value.__cause__, OSError)


async def test_a_name_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(ConnectError, match=r"broker-z:9876: .*Name or service not known; is the address right\?"):
        await connect("broker-z", 9876, timeout=PATIENCE)


async def test_a_name_that_can_be_no_name_is_an_address_that_is_not_right() -> None:
    with pytest.raises(ConnectError, match=r"is the address right\?"):
        await connect("é..é", 9876, timeout=PATIENCE)


async def test_a_connection_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect_tcp(*_: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(anyio, "connect_tcp", connect_tcp)
    with pytest.raises(ConnectError) as info:
        await connect("10.0.0.1", 9876, timeout=SOON)
    assert str(info.value) == "no connection to 10.0.0.1:9876 within 0.03 s; is the address right?"
    assert isinstance(info.value.__cause__, TimeoutError)


async def test_without_a_connection_there_is_no_block() -> None:
    with pytest.raises(ConnectError, match=r"is it running\?"):
        async with open_connection("127.0.0.1", unused_port()):
            pytest.fail("there is nobody to talk to")


# --- what is spoken


def accepting(seen: list[Command], answer: Callable[[Command], Command] = echo) -> Callable[[Conversation], None]:
    """A server that accepts the offer, and notes what it is sent."""

    def script(conversation: Conversation) -> None:
        while True:
            seen.append(request := conversation.read())
            fields = ACCEPTED if "PMQ_SER" in request.ext_fields else {}
            conversation.send(answer(request)._replace(ext_fields=fields))

    return script


async def test_the_offer_is_made_once_and_used_when_it_was_accepted() -> None:
    seen: list[Command] = []
    with scripted_server(accepting(seen)) as address:
        async with open_connection(*address) as connection:
            for _ in range(3):
                await connection.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest("T"), timeout=PATIENCE)
            assert connection.negotiation.capabilities == {"records", "bulk"}
            assert connection.negotiation.is_accepted
    assert [request.ext_fields for request in seen] == [{"topic": "T", "PMQ_SER": "2"}, {"topic": "T"}, {"topic": "T"}]
    assert [request.encoding for request in seen] == [JSON, MSGPACK, MSGPACK]


async def test_answers_in_json_to_requests_in_msgpack_are_taken() -> None:
    seen: list[Command] = []
    with scripted_server(accepting(seen, lambda request: echo(request._replace(encoding=JSON)))) as address:
        async with open_connection(*address) as connection:
            for number in numbers(3):
                answer = await connection.request(ECHO, body=number, timeout=PATIENCE)
                assert (bytes(answer.body), answer.encoding) == (number, JSON)
    assert [request.encoding for request in seen] == [JSON, MSGPACK, MSGPACK]


async def test_a_rocketmq_is_spoken_to_in_json() -> None:
    with scripted_server(Conversation.serve) as address:
        async with open_connection(*address) as connection:
            answers = [await connection.request(ECHO, timeout=PATIENCE) for _ in range(3)]
            assert {answer.encoding for answer in answers} == {JSON}
            assert not connection.speaks_pocketmq
            assert connection.negotiation.capabilities == frozenset()
    assert not connection.negotiation.broke_on_msgpack


async def test_without_an_offer_a_pocketmq_is_spoken_to_in_json() -> None:
    seen: list[Command] = []
    with scripted_server(accepting(seen)) as address:
        async with open_connection(*address, offer=False) as connection:
            for _ in range(2):
                await connection.request(ECHO, timeout=PATIENCE)
            assert not connection.speaks_pocketmq
    assert [(request.encoding, request.ext_fields) for request in seen] == [(JSON, {}), (JSON, {})]


async def test_a_server_that_closes_on_msgpack_is_found_out() -> None:
    def script(conversation: Conversation) -> None:
        while (request := conversation.read()).encoding == JSON:
            conversation.answer(request, ACCEPTED)

    with scripted_server(script) as address:
        async with open_connection(*address) as connection:
            await connection.request(ECHO, timeout=PATIENCE)
            with pytest.raises(ConnectionLostError):
                await connection.request(ECHO, timeout=PATIENCE)
        assert connection.negotiation.broke_on_msgpack
        async with open_connection(*address, offer=False) as connection:
            for _ in range(2):
                await connection.request(ECHO, timeout=PATIENCE)


async def test_the_real_server_accepts_the_offer() -> None:
    with real_server({ECHO: lambda request: request.reply(body=request.command.body)}) as address:
        async with open_connection(*address) as connection:
            answers = [await connection.request(ECHO, timeout=PATIENCE) for _ in range(3)]
            assert [answer.encoding for answer in answers] == [JSON, MSGPACK, MSGPACK]
            assert connection.speaks_pocketmq is True
            assert connection.negotiation.capabilities == {"records", "bulk"}
            unknown = await connection.request(4711, timeout=PATIENCE)
    assert unknown.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


# --- TLS


SERVER_TLS, CLIENT_TLS = tls_contexts()


async def test_requests_go_through_tls() -> None:
    body = bytes(range(256)) * 4096
    with real_server({ECHO: lambda request: request.reply(body=request.command.body)}, tls=SERVER_TLS) as address:
        async with open_connection(*address, tls=CLIENT_TLS) as connection:
            async with asking(connection, 100) as outcomes:
                answer = await connection.request(ECHO, body=body, timeout=PATIENCE)
            assert bodies(outcomes) == numbers(100)
            assert answer.body == body
        async with open_connection(*address) as connection:  # the same port serves those without it
            assert bytes((await connection.request(ECHO, body=b"plain", timeout=PATIENCE)).body) == b"plain"


async def test_a_certificate_that_is_not_trusted_makes_no_connection() -> None:
    reason = r"CERTIFICATE_VERIFY_FAILED.*with a certificate that is trusted here\?"
    with scripted_server(Conversation.serve, tls=SERVER_TLS) as address, pytest.raises(ConnectError, match=reason):
        await connect(*address, timeout=PATIENCE, tls=ssl.create_default_context())


async def test_a_server_without_tls_makes_no_connection() -> None:
    def script(conversation: Conversation) -> None:
        conversation.send(b"what?")

    with scripted_server(script) as address, pytest.raises(ConnectError, match="does it speak TLS"):
        await connect(*address, timeout=PATIENCE, tls=CLIENT_TLS)


async def test_a_server_that_never_shakes_hands_is_not_waited_for() -> None:
    with scripted_server(Conversation.fall_silent) as address, pytest.raises(ConnectError, match=r"within 0\.2 s"):
        await connect(*address, timeout=0.2, tls=CLIENT_TLS)


async def test_bytes_that_are_no_tls_break_the_connection() -> None:
    def script(conversation: Conversation) -> None:
        conversation.read()
        conversation.send_beneath_tls(b"this is no TLS record")
        conversation.fall_silent()

    with scripted_server(script, tls=SERVER_TLS) as address:
        async with open_connection(*address, tls=CLIENT_TLS) as connection:
            with pytest.raises(ConnectionLostError, match="the connection broke"):
                await connection.request(ECHO, timeout=PATIENCE)


async def test_the_end_of_a_tls_connection_needs_no_ceremony() -> None:
    with scripted_server(close_at_once, tls=SERVER_TLS) as address:
        async with open_connection(*address, tls=CLIENT_TLS) as connection:
            with pytest.raises(ConnectionLostError, match="the server closed the connection"):
                await connection.request(ECHO, timeout=PATIENCE)


@pytest.mark.parametrize("port", [-1, 0, 65536, 75412])  # 75412 is 9876 in 16 bits
async def test_what_is_no_port_is_not_dialled(port: int) -> None:
    with pytest.raises(ConnectError, match="a port is a number from 1 to 65535"):
        await connect("127.0.0.1", port, timeout=1.0)
