"""What a request handler sees, and the one place where its outcome becomes an answer.

A handler is a plain function: a `Request` in, an answer out. It answers at once with a command
(`request.reply(...)`), raises `Refusal`, or returns `request.later()`, keeps that object and answers through it when
the time has come. It never waits: the requests behind it are served meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import NO_FIELDS, Buffer, Command
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.fields import codec, encode_header
from pocketmq.protocol.requests import REQUESTS
from pocketmq.remoting.errors import Refusal

if TYPE_CHECKING:
    from pocketmq.remoting.peer import Peer

logger = logging.getLogger("pocketmq.remoting")

Header = TypeVar("Header")

_SUCCESS: Final = int(ResponseCode.SUCCESS)


class Request(Generic[Header]):
    """One request: its command, its typed header, and the peer that sent it."""

    __slots__ = ("command", "header", "peer")

    def __init__(self, command: Command, header: Header, peer: Peer) -> None:
        self.command = command
        self.header = header
        self.peer = peer

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
    """An answer that is still to come."""

    __slots__ = ("_cost", "request")

    # What a waiting request takes beside its body: the objects that make it up. It also bounds how many may wait.
    _OVERHEAD: Final = 1024

    def __init__(self, request: Request[Any]) -> None:
        self.request = request
        self._cost = self._OVERHEAD + len(request.command.body)
        request.peer.promised(self._cost)

    def answer(self, response: Command) -> None:
        """Send the answer, in the trio thread. The first one counts; one for a peer that has gone is dropped."""
        cost, self._cost = self._cost, 0
        if cost:
            self.request.peer.settled(cost)
            self.request.peer.send_answer(self.request.command, response)


Answer = Command | Later | None
Handler = Callable[[Request[Any]], Answer]


class Service(Protocol):
    """What a server serves. Everything is called in the trio thread and must not wait."""

    @property
    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler; a code that is not here is answered with REQUEST_CODE_NOT_SUPPORTED."""

    @property
    def capabilities(self) -> str:
        """The PocketMQ extensions on offer, as `PMQ_CAP` lists them."""

    def opened(self, peer: Peer) -> None:
        """A peer has connected."""

    def closed(self, peer: Peer) -> None:
        """A peer has gone."""

    def burst_ended(self) -> None:
        """The requests that had arrived together were all handled; their answers leave next."""


class Dispatcher:
    """Calls the handler of a request and turns whatever comes of it into an answer."""

    def __init__(self, service: Service) -> None:
        self._routes = {
            int(code): (codec(REQUESTS[code].request).decode, handler) for code, handler in service.handlers.items()
        }

    def __call__(self, command: Command, peer: Peer) -> None:
        """Handle one request; its answer, if there is one already, is put into the peer's outbox."""
        answer = self._answer(command, peer)
        if isinstance(answer, Command):
            peer.send_answer(command, answer)

    def _answer(self, command: Command, peer: Peer) -> Answer:
        route = self._routes.get(command.code)
        if route is None:
            remark = f" request type {command.code} not supported"
            return command.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        decode, handler = route
        try:
            return handler(Request(command, decode(command.ext_fields), peer))
        except Refusal as refusal:
            return command.reply(refusal.code, remark=refusal.remark)
        except RemoteProtocolError as error:  # a header field or a body that cannot be read
            return command.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        except Exception as error:
            logger.exception("request %s from %s failed", command.code, peer)
            remark = f"internal error ({type(error).__name__}); the server's log has the details"
            return command.reply(ResponseCode.SYSTEM_ERROR, remark=remark)
