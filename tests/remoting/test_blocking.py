"""The connection on a plain socket, against scripted servers and the real one."""

from __future__ import annotations

import itertools
import math
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
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
from serving import echo

from pocketmq.protocol.codes import Encoding, RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import LocalProtocolError
from pocketmq.protocol.framing import FrameDecoder, encode_frame
from pocketmq.protocol.headers.clients import ConsumerGroupRequest
from pocketmq.protocol.headers.namesrv import GetRouteInfoRequest
from pocketmq.remoting import blocking
from pocketmq.remoting import channel as channel_module
from pocketmq.remoting.blocking import BlockingConnection, Ticket, connect_blocking
from pocketmq.remoting.errors import (
    CongestedError,
    ConnectError,
    ConnectionLostError,
    RemotingError,
    RequestTimeoutError,
)
from pocketmq.remoting.handlers import Answer, Later, Request

JSON, MSGPACK = int(Encoding.JSON), int(Encoding.MSGPACK)
ECHO = RequestCode.GET_BROKER_RUNTIME_INFO
CHANGED = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
GROUP = ConsumerGroupRequest("G")
SOON = 0.03  # a timeout that is meant to pass
ACCEPTED = {"PMQ_SER": "2", "PMQ_CAP": "records,bulk"}
MEGABYTE = 1_000_000


def submit_all(connection: BlockingConnection, count: int, size: int = 1) -> list[Ticket]:
    """Requests 0, 1, 2 … are under way."""
    return [connection.submit(ECHO, body=b"%d" % index * size, timeout=PATIENCE) for index in range(count)]


def check_usable(connection: BlockingConnection) -> None:
    """Nobody waits any more, and a request still gets its answer."""
    assert "0 pending" in repr(connection)
    assert bytes(connection.request(ECHO, body=b"still there", timeout=PATIENCE).body) == b"still there"


def error_of(ticket: Ticket) -> RemotingError:
    with pytest.raises(RemotingError) as info:
        ticket.wait()
    return info.value


@contextmanager
def connected(server: AbstractContextManager[Address], **options: Any) -> Iterator[BlockingConnection]:
    with server as address, connect_blocking(*address, **options) as connection:
        yield connection


@contextmanager
def socket_pair(
    kind: type[socket.socket] = socket.socket, **options: Any
) -> Iterator[tuple[BlockingConnection, socket.socket]]:
    """A connection, and the server's end of it for the test to use."""
    ours, theirs = socket.socketpair()
    with theirs, BlockingConnection(kind(fileno=ours.detach()), ("server", 9876), **options) as connection:
        theirs.settimeout(PATIENCE)
        yield connection, theirs


# --- requests


def test_a_request_waits_for_its_answer() -> None:
    with connected(real_server({ECHO: echo})) as connection:
        for body in (b"one", b"two", bytes(MEGABYTE)):
            assert connection.request(ECHO, body=body, timeout=PATIENCE).body == body
        assert connection.request(4711, timeout=PATIENCE).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert "0 pending" in repr(connection)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_tickets_may_be_waited_for_in_any_order(order: tuple[int, ...]) -> None:
    def script(conversation: Conversation) -> None:
        requests = [conversation.read() for _ in order]
        for request in reversed(requests):
            conversation.answer(request, body=request.body)
        conversation.fall_silent()

    with connected(scripted_server(script)) as connection:
        tickets = submit_all(connection, 3)
        for index in order:
            assert bytes(tickets[index].wait().body) == b"%d" % index
        assert bytes(tickets[0].wait().body) == b"0"  # and asked again
        assert "0 pending" in repr(connection)


def test_hundreds_of_requests_may_be_under_way() -> None:
    with connected(real_server({ECHO: echo})) as connection:
        tickets = submit_all(connection, 500)
        assert [bytes(ticket.wait().body) for ticket in tickets] == [b"%d" % index for index in range(500)]


def test_much_in_both_directions_does_not_deadlock() -> None:
    # This server takes nothing while an answer has not been taken; and this is more than a client keeps.
    with connected(scripted_server(Conversation.serve)) as connection:
        tickets = submit_all(connection, 40, MEGABYTE)
        for index in reversed(range(40)):
            assert tickets[index].wait().body == b"%d" % index * MEGABYTE
        assert (connection.outgoing, connection.closed) == (0, False)


def test_much_in_both_directions_does_not_deadlock_with_the_real_server() -> None:
    with connected(real_server({ECHO: echo})) as connection:
        tickets = submit_all(connection, 40, MEGABYTE)
        for index, ticket in enumerate(tickets):
            assert ticket.wait().body == b"%d" % index * MEGABYTE


def test_a_system_without_poll_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "poll")
    with connected(scripted_server(Conversation.serve)) as connection:
        tickets = submit_all(connection, 10, MEGABYTE)
        for index, ticket in enumerate(tickets):
            assert ticket.wait().body == b"%d" % index * MEGABYTE
    with connected(scripted_server(Conversation.fall_silent)) as connection, pytest.raises(RequestTimeoutError):
        connection.request(ECHO, timeout=SOON)


def test_an_answer_in_many_pieces_is_put_together() -> None:
    def script(conversation: Conversation) -> None:
        request = conversation.read()
        for byte in encode_frame(request.reply(0, body=b"body")):
            conversation.send(bytes([byte]))
        conversation.serve()

    with connected(scripted_server(script)) as connection:
        assert bytes(connection.request(ECHO, timeout=PATIENCE).body) == b"body"
        check_usable(connection)


def test_a_second_answer_and_an_answer_to_nothing_are_dropped() -> None:
    def script(conversation: Conversation) -> None:
        request = conversation.read()
        answer = request.reply(0, body=b"body")
        conversation.send(answer._replace(opaque=999_999), answer, answer)
        conversation.serve()

    with connected(scripted_server(script)) as connection:
        assert bytes(connection.request(ECHO, timeout=PATIENCE).body) == b"body"
        check_usable(connection)


@pytest.mark.parametrize("timeout", [math.inf, 1e12])
def test_a_timeout_may_be_as_long_as_one_likes(timeout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "_LONGEST_WAIT", 0.01)  # so that it takes several turns

    def script(conversation: Conversation) -> None:
        request = conversation.read()
        time.sleep(0.05)
        conversation.answer(request)
        conversation.serve()

    with connected(scripted_server(script)) as connection:
        assert connection.request(ECHO, timeout=timeout).code == 0


def test_the_longest_wait_is_one_the_system_can_count() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")
        assert blocking._ready(ours, False, blocking._LONGEST_WAIT)


# --- timeouts


def answer_all_but_the_first(conversation: Conversation) -> None:
    first = conversation.read()
    second = conversation.read()
    conversation.answer(first, body=b"too late")
    conversation.answer(second, body=second.body)
    conversation.serve()


def test_a_timeout_names_the_request_and_leaves_the_connection_usable() -> None:
    with connected(scripted_server(answer_all_but_the_first)) as connection:
        with pytest.raises(RequestTimeoutError, match="did not answer request 28 in time"):
            connection.request(ECHO, timeout=SOON)
        check_usable(connection)
        check_usable(connection)


@pytest.mark.parametrize("timeout", [0.0, -1.0])
def test_no_time_at_all_is_a_timeout_too(timeout: float) -> None:
    with connected(scripted_server(Conversation.fall_silent)) as connection:
        with pytest.raises(RequestTimeoutError):
            connection.request(ECHO, timeout=timeout)
        assert "0 pending" in repr(connection)


def test_requests_that_nobody_waits_for_are_given_up_some_time_after_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "_FORGOTTEN", 0.0)

    def script(conversation: Conversation) -> None:
        conversation.read()
        conversation.answer(conversation.read(), body=b"second")
        conversation.fall_silent()

    with connected(scripted_server(script)) as connection:
        connection.submit(ECHO, timeout=0.0)
        assert connection.request(ECHO, body=b"second", timeout=PATIENCE).body == b"second"
        assert "0 pending" in repr(connection)


@pytest.mark.parametrize("port", [-1, 0, 65536, 75412])  # 75412 is 9876 in 16 bits
def test_what_is_no_port_is_not_dialled(port: int) -> None:
    with pytest.raises(ConnectError, match="a port is a number from 1 to 65535"):
        connect_blocking("127.0.0.1", port)


def answer_the_first_only(conversation: Conversation) -> None:
    first = conversation.read()
    conversation.read()
    conversation.answer(first, body=b"too late")
    conversation.fall_silent()


def test_a_later_request_with_an_earlier_deadline_times_out_first() -> None:
    with connected(scripted_server(answer_the_first_only)) as connection:
        patient = connection.submit(ECHO, timeout=PATIENCE)
        connection.notify(ECHO)  # lets the server go on to answer the first
        with pytest.raises(RequestTimeoutError):
            connection.submit(CHANGED, timeout=0.0).wait()
        assert bytes(patient.wait().body) == b"too late"


def test_an_answer_that_came_in_time_counts_however_late_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "RECEIVE_SIZE", 100)
    monkeypatch.setattr(blocking, "_CATCH_UP", PATIENCE)
    answered = threading.Event()

    def script(conversation: Conversation) -> None:
        for request in [conversation.read() for _ in range(3)]:
            conversation.answer(request, body=bytes(request.body) * 3000)
        answered.set()
        conversation.fall_silent()

    with connected(scripted_server(script)) as connection:
        tickets = [connection.submit(ECHO, body=b"%d" % index, timeout=SOON) for index in range(3)]
        assert answered.wait(PATIENCE)
        time.sleep(2 * SOON)
        for index, ticket in enumerate(tickets):
            assert ticket.wait().body == b"%d" % index * 3000


class NoisySocket(socket.socket):
    """There is always something to read, and it is never an answer."""

    def recv(self, size: int, flags: int = 0) -> bytes:
        return encode_frame(oneway(4711)) * 100


def test_a_server_that_never_stops_talking_does_not_stretch_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "_ready", lambda *_: True)
    with socket_pair(NoisySocket) as (connection, _):
        with pytest.raises(RequestTimeoutError):
            connection.request(ECHO, timeout=SOON)
        assert "0 pending" in repr(connection)


# --- what the server asks


def test_what_the_server_asks_is_answered_while_we_wait() -> None:
    seen: list[Command] = []
    notified: list[ConsumerGroupRequest] = []

    def script(conversation: Conversation) -> None:
        request = conversation.read()
        conversation.send(oneway(CHANGED, GROUP), question(CHANGED, GROUP, opaque=request.opaque), question(4711))
        seen.extend([conversation.read(), conversation.read()])
        conversation.answer(request)
        conversation.serve()

    def changed(request: Request[ConsumerGroupRequest]) -> Answer:
        notified.append(request.header)
        return request.reply(body=b"done")

    with connected(scripted_server(script), handlers={CHANGED: changed}) as connection:
        assert connection.request(ECHO, timeout=PATIENCE).code == 0
        check_usable(connection)
    assert notified == [GROUP, GROUP]
    assert [answer.code for answer in seen] == [0, ResponseCode.REQUEST_CODE_NOT_SUPPORTED]
    assert bytes(seen[0].body) == b"done"
    assert seen[1].remark == " request type 4711 not supported"


def test_an_answer_leaves_with_the_call_in_which_it_was_made() -> None:
    with socket_pair(handlers={CHANGED: lambda request: request.reply(body=b"done")}) as (connection, server):
        server.send(encode_frame(question(CHANGED, GROUP, opaque=5)))
        connection.pump(time.monotonic() + PATIENCE)
        (answer,) = FrameDecoder().feed(server.recv(100_000))
        assert (answer.opaque, bytes(answer.body)) == (5, b"done")
        assert connection.outgoing == 0


def test_a_question_may_be_answered_later() -> None:
    promises: list[Later] = []

    def changed(request: Request[Any]) -> Answer:
        promises.append(request.later())
        return promises[-1]

    with socket_pair(handlers={CHANGED: changed}) as (connection, server):
        server.send(encode_frame(question(CHANGED, GROUP, opaque=5)))
        connection.pump(time.monotonic() + PATIENCE)
        promises[0].answer(promises[0].request.reply())
        connection.pump(time.monotonic())
        (answer,) = FrameDecoder().feed(server.recv(100_000))
        assert (answer.code, answer.opaque) == (0, 5)


@pytest.mark.parametrize("handlers", [{}, {CHANGED: lambda request: request.later()}], ids=["untaken", "promised"])
def test_a_server_that_asks_and_asks_is_left(
    handlers: dict[int, Callable[[Request[Any]], Answer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "MAX_FRAME", 1000)
    with socket_pair(handlers=handlers) as (connection, server):
        connection._max_outgoing = connection._max_unanswered = 20_000
        connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        flood = encode_frame(question(CHANGED, GROUP)) * 1000
        talker = threading.Thread(target=send_until_closed, args=(server, flood), daemon=True)
        talker.start()
        with pytest.raises(ConnectionLostError, match=r"the connection broke \(it asks for more than is answered\)"):
            connection.request(ECHO, timeout=PATIENCE)
        talker.join(PATIENCE)
        assert not talker.is_alive()


def send_until_closed(sock: socket.socket, data: bytes) -> None:
    try:
        while True:
            sock.sendall(data)
    except ConnectionError:
        pass


# --- connections that break


def read_three(conversation: Conversation) -> list[Command]:
    """All that the client sends: a server that closes with something unread resets the connection."""
    return [conversation.read() for _ in range(3)]


def close(conversation: Conversation) -> None:
    read_three(conversation)


def close_hard(conversation: Conversation) -> None:
    read_three(conversation)
    conversation.reset()


def send_garbage(conversation: Conversation) -> None:
    read_three(conversation)
    conversation.send(GARBAGE)
    conversation.fall_silent()


def send_half(conversation: Conversation) -> None:
    first, *_ = read_three(conversation)
    conversation.send(encode_frame(first.reply(0))[:20])


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (close, "the server closed the connection before it answered request 28"),
        (close_hard, "the connection broke (Connection reset by peer) before it answered request 28"),
        (send_garbage, "the server's bytes make no sense (unknown header encoding 9) before it answered request 28"),
        (send_half, "the server closed the connection within a frame before it answered request 28"),
    ],
)
def test_a_broken_connection_tells_everyone_who_waits_why(script: Callable[[Conversation], None], reason: str) -> None:
    with connected(scripted_server(script)) as connection:
        for ticket in submit_all(connection, 3):
            error = error_of(ticket)
            assert isinstance(error, ConnectionLostError)
            assert str(error) == f"{connection.name}: {reason}"
            assert error.__cause__ is not None
        assert repr(connection) == f"<BlockingConnection {connection.name} closed, 0 pending>"
        check_closed(connection)


def check_closed(connection: BlockingConnection) -> None:
    """Whatever is asked of it, a connection that has ended says so at once."""
    attempts: list[Callable[[], object]] = [
        lambda: connection.request(ECHO, timeout=math.inf),
        lambda: connection.submit(ECHO, timeout=math.inf),
        lambda: connection.notify(ECHO),
        lambda: connection.pump(math.inf),
    ]
    for attempt in attempts:
        with pytest.raises(ConnectionLostError, match="has ended"):
            attempt()


def test_answers_in_front_of_garbage_still_count() -> None:
    def script(conversation: Conversation) -> None:
        first, _ = conversation.read(), conversation.read()
        conversation.send(first.reply(0, body=first.body), GARBAGE)
        conversation.fall_silent()

    with connected(scripted_server(script)) as connection:
        first, second = submit_all(connection, 2)
        assert bytes(first.wait().body) == b"0"
        assert isinstance(error_of(second), ConnectionLostError)


def test_a_mistake_of_the_caller_does_not_end_the_connection() -> None:
    with connected(scripted_server(Conversation.serve)) as connection:
        with pytest.raises(LocalProtocolError):
            connection.request(ECHO, body=bytes(16 * 1024 * 1024), timeout=PATIENCE)
        check_usable(connection)


class Interrupted(BaseException):
    """Like the KeyboardInterrupt of a user, which pytest would take for its own."""


class InterruptedSocket(socket.socket):
    """The user loses patience when a part of a frame has left."""

    def send(self, data: Any, flags: int = 0) -> int:
        super().send(data[:10], flags)
        raise Interrupted


def test_an_interruption_in_the_middle_of_a_frame_ends_the_connection() -> None:
    with socket_pair(InterruptedSocket) as (connection, server):
        with pytest.raises(Interrupted):
            connection.request(ECHO, timeout=PATIENCE)
        assert len(server.recv(100)) == 10
        assert server.recv(100) == b""
        check_closed(connection)


def test_an_interruption_while_waiting_ends_the_connection_for_everyone() -> None:
    def changed(request: Request[Any]) -> Answer:
        raise Interrupted

    with socket_pair(handlers={CHANGED: changed}) as (connection, server):
        (ticket,) = submit_all(connection, 1)
        server.send(encode_frame(oneway(CHANGED, GROUP)))
        with pytest.raises(Interrupted):
            connection.request(ECHO, timeout=PATIENCE)
        assert "the connection was given up (Interrupted)" in str(error_of(ticket))
        check_closed(connection)


# --- the end of a connection


@pytest.fixture
def no_descriptor_stays() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


def test_notifications_leave_before_the_connection_is_closed() -> None:
    arrived: list[int] = []

    def script(conversation: Conversation) -> None:
        while True:
            arrived.append(len(conversation.read().body))

    with connected(scripted_server(script, receive_buffer=4096)) as connection:
        for size in (10, 5 * MEGABYTE, 20):
            connection.notify(ECHO, body=bytes(size))
    assert arrived == [10, 5 * MEGABYTE, 20]


@pytest.mark.parametrize("has_poll", [True, False])
def test_what_the_system_does_not_take_at_once_leaves_when_it_does(
    has_poll: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_poll:
        monkeypatch.delattr(select, "poll")
    arrived: list[int] = []
    reads = threading.Event()

    def script(conversation: Conversation) -> None:
        assert reads.wait(PATIENCE)
        arrived.append(len(conversation.read().body))

    with scripted_server(script, receive_buffer=4096) as address:
        connection = connect_blocking(*address)
        connection.notify(ECHO, body=bytes(15 * MEGABYTE))
        assert connection.outgoing > 0
        threading.Timer(0.05, reads.set).start()  # while it waits below for the server, which says nothing
        connection.close(grace=PATIENCE)
    assert arrived == [15 * MEGABYTE]


def test_a_server_that_takes_nothing_is_not_waited_for_at_the_end() -> None:
    with scripted_server(Conversation.fall_silent, receive_buffer=4096) as address:
        connection = connect_blocking(*address)
        ticket = connection.submit(ECHO, body=bytes(15 * MEGABYTE), timeout=math.inf)
        assert connection.outgoing > 0
        started = time.monotonic()
        connection.close(grace=0.1)
        assert 0.1 <= time.monotonic() - started < 10
        assert "the connection was closed before it answered" in str(error_of(ticket))
        check_closed(connection)
        connection.close()


def test_closing_ends_every_wait() -> None:
    with scripted_server(Conversation.fall_silent) as address:
        connection = connect_blocking(*address)
        tickets = submit_all(connection, 3)
        connection.close()
        reason = f"{connection.name}: the connection was closed before it answered request 28"
        assert [str(error_of(ticket)) for ticket in tickets] == [reason] * 3
        check_closed(connection)


def test_an_exception_of_the_block_closes_the_connection_and_comes_out() -> None:
    with scripted_server(Conversation.serve) as address:
        connection = connect_blocking(*address)
        with pytest.raises(Interrupted), connection:
            raise Interrupted
        check_closed(connection)


def test_many_connections_leave_no_descriptor() -> None:
    with scripted_server(Conversation.serve) as address:
        before = open_descriptors()
        for _ in range(30):
            with connect_blocking(*address) as connection:
                assert connection.request(ECHO, timeout=PATIENCE).code == 0
            with pytest.raises(KeyError):
                connect_blocking(*address, handlers={4711: lambda request: None})
        deadline = time.monotonic() + PATIENCE
        while open_descriptors() > before:  # the server's ends are closed by other threads
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.usefixtures("no_descriptor_stays")
def test_broken_connections_leave_no_descriptor() -> None:
    with scripted_server(send_garbage) as address:
        connections = [connect_blocking(*address) for _ in range(10)]
        for connection in connections:
            assert isinstance(error_of(submit_all(connection, 3)[0]), ConnectionLostError)


# --- a server that does not read


def submit_without_end(connection: BlockingConnection) -> None:
    while True:
        connection.submit(ECHO, body=bytes(100_000), timeout=SOON)


def test_what_is_kept_for_a_server_that_takes_nothing_is_bounded() -> None:
    with scripted_server(Conversation.fall_silent, receive_buffer=4096) as address:
        connection = connect_blocking(*address)
        connection._max_outgoing = 500_000
        with pytest.raises(RequestTimeoutError, match=r"did not take request 28 within 0\.03 s"):
            submit_without_end(connection)
        with pytest.raises(CongestedError):
            connection.notify(ECHO)
        assert 500_000 < connection.outgoing < 700_000
        connection.close(grace=0.0)


# --- no connection


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_refused_connection_says_so_and_where_to_look(host: str) -> None:
    port = unused_port()
    with pytest.raises(ConnectError) as info:
        connect_blocking(host, port)
    assert str(info.value) == f"no connection to {host}:{port}: Connection refused; is it running?"
    assert isinstance(info.value.__cause__, ConnectionRefusedError)


def test_a_name_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(ConnectError, match=r"broker-z:9876: .*Name or service not known; is the address right\?"):
        connect_blocking("broker-z", 9876)


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "é..é"])
def test_a_name_that_can_be_no_name_is_an_address_that_is_not_right(host: str) -> None:
    with pytest.raises(ConnectError, match=r"is the address right\?"):
        connect_blocking(host, 9876)


def test_a_connection_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_connection(address: tuple[str, int], timeout: float) -> None:
        assert (address, timeout) == (("10.0.0.1", 9876), 0.25)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", create_connection)
    with pytest.raises(ConnectError) as info:
        connect_blocking("10.0.0.1", 9876, timeout=0.25)
    assert str(info.value) == "no connection to 10.0.0.1:9876 within 0.25 s; is the address right?"
    assert isinstance(info.value.__cause__, TimeoutError)


# --- what is spoken


def test_the_offer_is_made_once_and_used_when_it_was_accepted() -> None:
    seen: list[Command] = []

    def script(conversation: Conversation) -> None:
        while True:
            seen.append(request := conversation.read())
            conversation.answer(request, ACCEPTED if "PMQ_SER" in request.ext_fields else {})

    with connected(scripted_server(script)) as connection:
        for _ in range(3):
            connection.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest("T"), timeout=PATIENCE)
        assert connection.speaks_pocketmq
        assert connection.negotiation.capabilities == {"records", "bulk"}
    assert [request.ext_fields for request in seen] == [{"topic": "T", "PMQ_SER": "2"}, {"topic": "T"}, {"topic": "T"}]
    assert [request.encoding for request in seen] == [JSON, MSGPACK, MSGPACK]


def test_answers_in_json_to_requests_in_msgpack_are_taken() -> None:
    def script(conversation: Conversation) -> None:
        while True:
            request = conversation.read()
            answer = request._replace(encoding=JSON).reply(0, ACCEPTED, request.body)
            conversation.send(answer)

    with connected(scripted_server(script)) as connection:
        for _ in range(3):
            check_usable(connection)
        assert connection.encoding == MSGPACK


@pytest.mark.parametrize("offer", [True, False])
def test_a_rocketmq_is_spoken_to_in_json(offer: bool) -> None:
    with connected(scripted_server(Conversation.serve), offer=offer) as connection:
        answers = [connection.request(ECHO, timeout=PATIENCE) for _ in range(3)]
        assert {answer.encoding for answer in answers} == {JSON}
        assert not connection.speaks_pocketmq


def test_a_server_that_closes_on_msgpack_is_found_out() -> None:
    def script(conversation: Conversation) -> None:
        while (request := conversation.read()).encoding == JSON:
            conversation.answer(request, ACCEPTED)

    with connected(scripted_server(script)) as connection:
        connection.request(ECHO, timeout=PATIENCE)
        with pytest.raises(ConnectionLostError):
            connection.request(ECHO, timeout=PATIENCE)
        assert connection.negotiation.broke_on_msgpack


# --- TLS


SERVER_TLS, CLIENT_TLS = tls_contexts()


def test_requests_go_through_tls() -> None:
    with connected(real_server({ECHO: echo}, tls=SERVER_TLS), tls=CLIENT_TLS) as connection:
        tickets = submit_all(connection, 10, MEGABYTE)
        for index in reversed(range(10)):
            assert tickets[index].wait().body == b"%d" % index * MEGABYTE
        check_usable(connection)


def test_a_tls_record_that_was_read_in_part_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "RECEIVE_SIZE", 100)
    with connected(scripted_server(Conversation.serve, tls=SERVER_TLS), tls=CLIENT_TLS) as connection:
        answer = connection.request(ECHO, body=b"x" * 5000, timeout=PATIENCE)
        assert answer.body == b"x" * 5000


def test_a_timeout_leaves_a_tls_connection_usable() -> None:
    with connected(scripted_server(answer_all_but_the_first, tls=SERVER_TLS), tls=CLIENT_TLS) as connection:
        with pytest.raises(RequestTimeoutError):
            connection.request(ECHO, timeout=SOON)
        check_usable(connection)


@pytest.mark.parametrize(
    ("script", "reason"), [(close, "the server closed the connection"), (send_garbage, "make no sense")]
)
def test_a_broken_tls_connection_says_why(script: Callable[[Conversation], None], reason: str) -> None:
    with connected(scripted_server(script, tls=SERVER_TLS), tls=CLIENT_TLS) as connection:
        error = error_of(submit_all(connection, 3)[0])
        assert isinstance(error, ConnectionLostError)
        assert reason in str(error)


def test_bytes_that_are_no_tls_break_the_connection() -> None:
    def script(conversation: Conversation) -> None:
        conversation.read()
        conversation.send_beneath_tls(b"this is no TLS record")
        conversation.fall_silent()

    with (
        connected(scripted_server(script, tls=SERVER_TLS), tls=CLIENT_TLS) as connection,
        pytest.raises(ConnectionLostError, match=r"the connection broke \(.*SSL"),
    ):
        connection.request(ECHO, timeout=PATIENCE)


@pytest.mark.usefixtures("no_descriptor_stays")
def test_a_certificate_that_is_not_trusted_makes_no_connection() -> None:
    reason = r"CERTIFICATE_VERIFY_FAILED.*with a certificate that is trusted here\?"
    with scripted_server(Conversation.serve, tls=SERVER_TLS) as address, pytest.raises(ConnectError, match=reason):
        connect_blocking(*address, tls=ssl.create_default_context())


@pytest.mark.usefixtures("no_descriptor_stays")
def test_a_server_without_tls_makes_no_connection() -> None:
    def script(conversation: Conversation) -> None:
        conversation.send(b"what?")

    with scripted_server(script) as address, pytest.raises(ConnectError, match="does it speak TLS"):
        connect_blocking(*address, tls=CLIENT_TLS)


@pytest.mark.usefixtures("no_descriptor_stays")
def test_a_server_that_never_shakes_hands_is_not_waited_for() -> None:
    with scripted_server(Conversation.fall_silent) as address, pytest.raises(ConnectError, match=r"within 0\.2 s"):
        connect_blocking(*address, timeout=0.2, tls=CLIENT_TLS)
