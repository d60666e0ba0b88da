"""One end of a connection without its I/O: what waits to be sent, what waits for an answer, what is still owed.

The three shims (`peer.py` for trio, `connection.py` for AnyIO, `blocking.py` for plain sockets) put bytes in and take
bytes out; what the bytes mean is decided here. Whatever is to be sent goes into an outbox, and all that is in it leaves
in one write. Both directions number their requests on their own, so the numbers overlap: the response bit of a frame
says whose table it belongs to.

Two numbers bound what the other end can cost:

- *unanswered*: bytes of its requests whose answers were promised for later. Above the limit nothing more is read.
- *outgoing*: bytes that wait to be sent. Above the limit an answer gives way to a short SYSTEM_BUSY, and a request of
  ours is refused with `CongestedError`. Far above it, where only answers get, nothing more is read either: an end that
  waits for its requests to be taken must go on reading, for the other end may wait for just that.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any, Final

from pocketmq.protocol.codes import CommandFlag, Encoding, ResponseCode
from pocketmq.protocol.command import NO_FIELDS, Buffer, Command
from pocketmq.protocol.errors import LocalProtocolError
from pocketmq.protocol.fields import encode_header
from pocketmq.protocol.framing import MAX_FRAME, encode_head
from pocketmq.protocol.negotiation import OFFER
from pocketmq.protocol.pending import PendingRequests
from pocketmq.remoting.errors import CongestedError, ConnectionLostError, RemotingError, RequestTimeoutError

logger = logging.getLogger("pocketmq.remoting")

_ONEWAY: Final = int(CommandFlag.ONEWAY)

RECEIVE_SIZE: Final = 256 * 1024
"""Bytes to ask for at once: what is there of a burst comes in one piece."""

MAX_UNANSWERED: Final = 64 * 1024 * 1024
MAX_OUTGOING: Final = 32 * 1024 * 1024

Done = Callable[[Command | RemotingError], None]
"""Called once with the answer to a request, or with the reason why there is none."""


class Outcome:
    """What becomes of a request, for someone who waits for it: `told` is called once it is known."""

    __slots__ = ("_told", "_value")

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told
        self._value: Command | RemotingError | None = None

    @property
    def is_known(self) -> bool:
        return self._value is not None

    def set(self, value: Command | RemotingError) -> None:
        self._value = value
        self._told()

    def result(self) -> Command:
        """The answer; raises the reason if there is none."""
        if isinstance(self._value, Command):
            return self._value
        assert self._value is not None
        raise self._value


def host_port(address: tuple[str, int]) -> str:
    """An address as people write it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Channel:
    """One end of a connection. Used by one thread or event loop only."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        max_unanswered: int = MAX_UNANSWERED,
        max_outgoing: int = MAX_OUTGOING,
    ) -> None:
        self.address = address
        self.encoding = int(Encoding.JSON)
        self.closed = False
        self.speaks_pocketmq = False
        self._end_reason = ""
        self._max_unanswered = max_unanswered
        self._max_outgoing = max_outgoing
        self._unanswered = 0
        self.outgoing = 0  # bytes that wait to be sent, or are being sent
        self._outbox: list[Buffer] = []
        self._is_asleep = False
        self._pending: PendingRequests[tuple[Done, int]] = PendingRequests()  # with the code of each request

    @property
    def name(self) -> str:
        """The other end as `host:port`."""
        return host_port(self.address)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self._unanswered} unanswered, {self.outgoing} outgoing"
        return f"<{type(self).__name__} {self.name} {state}, {len(self._pending)} pending>"

    # --- requests of ours ---

    def notify(self, code: int, header: tuple[Any, ...] | None = None, body: Buffer = b"") -> None:
        """Send a request that wants no answer."""
        self._send_request(self._request(self._pending.next_opaque(), code, header, body, _ONEWAY))

    def begin(
        self,
        code: int,
        header: tuple[Any, ...] | None = None,
        body: Buffer = b"",
        *,
        done: Done,
        deadline: float = math.inf,
    ) -> int:
        """Send a request; `done` is called with its outcome unless it is withdrawn by the number that is returned."""
        opaque = self._pending.next_opaque()
        self._send_request(self._offering(self._request(opaque, code, header, body, 0)))
        self._pending.add(opaque, (done, code), deadline)
        self._expecting(opaque, deadline)
        return opaque

    def withdraw(self, opaque: int) -> None:
        """Nobody waits for the answer any more."""
        self._pending.pop(opaque)

    def _request(self, opaque: int, code: int, header: tuple[Any, ...] | None, body: Buffer, flag: int) -> Command:
        ext_fields = NO_FIELDS if header is None else encode_header(header)
        return Command(code, ext_fields, body, opaque, flag, encoding=self.encoding)

    def _send_request(self, request: Command) -> None:
        self.check_open()
        if self.is_congested:
            raise CongestedError(f"{self.name} does not read what it is sent")
        self._put(request)

    def _offering(self, request: Command) -> Command:
        """A request that will be answered; a client adds its offer to the first one."""
        return request

    # --- requests of the other end ---

    def send_answer(self, request: Command, response: Command) -> None:
        """Put the answer to a request into the outbox, if anyone is there who wants it."""
        if request.flag & _ONEWAY or self.closed:
            return
        if self.outgoing > self._max_outgoing:
            response = request.reply(ResponseCode.SYSTEM_BUSY, remark="you do not read your answers; ask again later")
        if OFFER in request.ext_fields:
            response = self._accept(request.ext_fields[OFFER], response)
        try:
            self._put(response)
        except LocalProtocolError as error:
            logger.error("the answer to request %s of %s cannot be sent: %s", request.code, self, error)
            self._put(request.reply(ResponseCode.SYSTEM_ERROR, remark="the answer does not fit into a frame"))

    def _accept(self, offer: str, response: Command) -> Command:
        """The answer to a request with an offer; a server puts into it what it accepts."""
        return response

    def promised(self, cost: int) -> None:
        """A request of that many bytes is answered later."""
        self._unanswered += cost

    def settled(self, cost: int) -> None:
        """It was answered."""
        self._unanswered -= cost
        self._eased()

    # --- for the shims ---

    @property
    def owes_too_much(self) -> bool:
        """Whether more answers are promised, or are not taken, than are to be remembered."""
        # Our own requests end one frame above the limit: twice that is only reached by answers.
        return self._unanswered > self._max_unanswered or self.outgoing > 2 * self._max_outgoing + MAX_FRAME

    @property
    def is_congested(self) -> bool:
        """Whether more waits to be sent than is to be kept."""
        return self.outgoing > self._max_outgoing

    def earliest_deadline(self) -> float:
        """When the next of our requests is overdue."""
        return self._pending.earliest_deadline()

    def check_open(self) -> None:
        """Raise `ConnectionLostError`, with the reason, once the connection has ended."""
        if self.closed:
            raise ConnectionLostError(f"the connection to {self.name} has ended: {self._end_reason}")

    def take_outbox(self) -> bytes:
        """All that waits to be sent, as one piece; it counts as outgoing until `sent` says otherwise."""
        data = b"".join(self._outbox)
        self._outbox.clear()
        return data

    def sent(self, size: int) -> None:
        """So many bytes were taken over by the system."""
        self.outgoing -= size
        self._eased()

    def answered(self, response: Command) -> None:
        """The answer to a request of ours; one nobody waits for is dropped."""
        waiting = self._pending.pop(response.opaque)
        if waiting is not None:
            _tell(waiting[0], response)

    def expire(self, now: float) -> None:
        """Tell those whose time is up."""
        for done, code in self._pending.expire(now):
            _tell(done, RequestTimeoutError(f"{self.name} did not answer request {code} in time"))

    def end(self, reason: str, cause: BaseException | None = None) -> None:
        """The connection has ended: nothing is sent any more, and whoever waits is told so. The first reason counts."""
        if self.closed:
            return
        self.closed = True
        self._end_reason = reason
        self._outbox.clear()
        for done, code in self._pending.clear():
            error = ConnectionLostError(f"{self.name}: {reason} before it answered request {code}")
            error.__cause__ = cause
            _tell(done, error)
        self._eased()

    # --- inside ---

    def _put(self, command: Command) -> None:
        head, body = encode_head(command), command.body
        self._outbox.append(head)
        self.outgoing += len(head) + len(body)
        if body:
            self._outbox.append(body)
        if self._is_asleep:
            self._wake()

    def _wake(self) -> None:
        """There is something to send. Called while `_is_asleep`: whoever sends sees by itself what comes meanwhile."""

    def _expecting(self, opaque: int, deadline: float) -> None:
        """There is a request on its way that is to be answered by then."""

    def _eased(self) -> None:
        """There is room again, or nothing to wait for."""


def _tell(done: Done, outcome: Command | RemotingError) -> None:
    """Hand over an outcome; what goes wrong there must not keep it from others, nor end a server."""
    try:
        done(outcome)
    except Exception:
        logger.exception("the outcome of a request could not be handled: %.200r", outcome)
