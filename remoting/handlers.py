"""What a request handler sees, and the one place where its outcome becomes an answer.

A handler is a plain function: a `Request` in, an answer out. It answers at once with a command
(`request.reply(...)`), raises `Refusal`, or returns `request.later()`, keeps that object and answers through it when
the time has come. It never waits: the requests behind it are served meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import NO_FIELDS, Buffer, Command
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.fields import codec, encode_header
from pocketmq.protocol.requests import REQUESTS, RequestSpec
from pocketmq.remoting.channel import Channel
from pocketmq.remoting.errors import Refusal

logger = logging.getLogger("pocketmq.remoting")

Header = TypeVar("Header")

_SUCCESS: Final = int(ResponseCode.SUCCESS)
_new: Final = tuple.__new__  # skips a call of Python code for every request


class Request(NamedTuple, Generic[Header]):
    """One request: its command, its typed header, and the channel on which it came."""

    command: Command
    header: Header
    channel: Channel

    def reply(
        self,
        header: tuple[Any, ...] | None = None,
        body: Buffer = b"",
        *,
        code: int = _SUCCESS,
        remark: str | None = None,
    ) -> Command:
        """The answer to this request."""
        return self.command.reply(code, NO_FIELDS if header is None else encode_header(header), body, remark)

    def later(self) -> Later:
        """Promise an answer; the connection may stop being read while too much is promised on it."""
        return Later(self)


class Later:
    """An answer that is still to come.

    Its request has no body any more: a view would keep alive all that was read together with it.
    """

    __slots__ = ("_answered", "_cost", "_counted", "request")

    # What a waiting request takes beside its bytes: the objects that make it up. It also bounds how many may wait.
    _OVERHEAD: Final = 1024
    _FIELD_OVERHEAD: Final = 128

    def __init__(self, request: Request[Any]) -> None:
        command, header, channel = request
        fields = command.ext_fields
        self.request = Request(command.without_body(), header, channel)
        self._cost = self._OVERHEAD + len(command.body) + len(command.remark or "")
        self._cost += self._FIELD_OVERHEAD * len(fields) + sum(map(len, fields)) + sum(map(len, fields.values()))
        self._counted = self._answered = False

    def count(self) -> None:
        """The handler has returned it: from now on, and until it is answered, it counts as unanswered."""
        if not self._answered:
            self._counted = True
            self.request.channel.promised(self._cost)

    def answer(self, response: Command) -> None:
        """Send the answer, in the channel's own thread. The first one counts; nobody there to read it drops it."""
        if self._answered:
            return
        self._answered = True
        if self._counted:
            self.request.channel.settled(self._cost)
        self.request.channel.send_answer(self.request.command, response)


Answer = Command | Later | None
Handler = Callable[[Request[Any]], Answer]


class Service:
    """What a server serves. Everything is called in the trio thread and must not wait."""

    handlers: Mapping[int, Handler]
    """Request code -> handler; a code that is not here is answered with REQUEST_CODE_NOT_SUPPORTED."""

    capabilities: str = ""
    """The PocketMQ extensions on offer, as `PMQ_CAP` lists them."""

    def opened(self, channel: Channel) -> None:
        """A peer has connected."""

    def closed(self, channel: Channel) -> None:
        """A peer has gone."""

    def burst_ended(self) -> None:
        """Requests that had arrived together were handled; their answers leave next."""


class Dispatcher:
    """Calls the handler of a request and turns whatever comes of it into an answer."""

    def __init__(self, handlers: Mapping[int, Handler]) -> None:
        self._routes = {int(code): _route(REQUESTS[code], handler) for code, handler in handlers.items()}

    def __call__(self, command: Command, channel: Channel) -> None:
        """Handle one request; its answer, if there is one already, is put into the channel's outbox."""
        route = self._routes.get(command.code)
        if route is None:
            answer: Answer = _unsupported(command)
        else:
            decode, body_limit, handler = route
            try:
                if len(command.body) > body_limit:
                    raise RemoteProtocolError(f"a body of {len(command.body)} bytes; the limit is {body_limit}")
                answer = handler(_new(Request, (command, decode(command.ext_fields), channel)))
            except Exception as error:
                answer = _failed(command, error, channel)
        if type(answer) is Command:
            channel.send_answer(command, answer)
        elif isinstance(answer, Later):
            answer.count()


def _route(request: RequestSpec, handler: Handler) -> tuple[Callable[[Mapping[str, str]], Any], int, Handler]:
    """What to know of a request code when a request comes."""
    return codec(request.request).decode, request.body_limit, handler


def _unsupported(command: Command) -> Command:
    remark = f" request type {command.code} not supported"  # with RocketMQ's blank in front
    return command.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)


def _failed(command: Command, error: Exception, channel: Channel) -> Command:
    """The answer to a request that its handler, or the reading of its header, ended with an exception."""
    match error:
        case Refusal():
            return command.reply(error.code, remark=error.remark)
        case RemoteProtocolError():  # a header field or a body that cannot be read
            return command.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
    logger.error("request %s from %s failed", command.code, channel, exc_info=error)
    remark = f"internal error ({type(error).__name__}); the server's log has the details"
    return command.reply(ResponseCode.SYSTEM_ERROR, remark=remark)
