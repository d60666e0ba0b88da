"""The client's end of a connection without its I/O: what `connection.py` and `blocking.py` share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pocketmq.protocol.codes import CommandFlag
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import RemoteProtocolError
from pocketmq.protocol.framing import FrameDecoder
from pocketmq.protocol.negotiation import Negotiation
from pocketmq.remoting.channel import Channel
from pocketmq.remoting.errors import in_plain_words
from pocketmq.remoting.handlers import Dispatcher, Handler

NO_HANDLERS: Final[Mapping[int, Handler]] = {}

_RESPONSE: Final = int(CommandFlag.RESPONSE)


class ClientChannel(Channel):
    """The end that made the connection: it offers what it would like to speak, and learns what it may.

    `handlers` serve what the server asks of its client. Without `offer` the channel keeps to what every RocketMQ
    server understands.
    """

    def __init__(self, address: tuple[str, int], *, handlers: Mapping[int, Handler], offer: bool) -> None:
        super().__init__(address)
        self.negotiation = Negotiation(offer=offer)
        self._dispatch = Dispatcher(handlers)
        self._decoder = FrameDecoder()

    def received(self, data: bytes) -> None:
        """Hand on all that arrived together; raises `RemoteProtocolError` when it makes no sense."""
        for command in self._decoder.feed(data):
            if command.flag & _RESPONSE:
                self.answered(command)
            else:
                self._dispatch(command, self)

    def answered(self, response: Command) -> None:
        if not self.negotiation.is_settled:
            self.negotiation.response(response.opaque, response.ext_fields, response.encoding)
            self.encoding = self.negotiation.encoding
            self.speaks_pocketmq = self.negotiation.is_accepted
        super().answered(response)

    def closed_by_server(self, cause: BaseException) -> None:
        """The server has sent all that it will ever send."""
        within = " within a frame" if self._decoder.pending else ""
        self.end(f"the server closed the connection{within}", cause)

    def broke(self, cause: BaseException) -> None:
        """The network, or what the server sent, put an end to the connection."""
        if isinstance(cause, RemoteProtocolError):
            self.end(f"the server's bytes make no sense ({cause})", cause)
        else:
            self.end(f"the connection broke ({in_plain_words(cause)})", cause)

    def _offering(self, request: Command) -> Command:
        if self.negotiation.is_settled:
            return request
        return request._replace(ext_fields=self.negotiation.request_fields(request.ext_fields))

    def _expecting(self, opaque: int, deadline: float) -> None:
        if not self.negotiation.is_settled:
            self.negotiation.sent(opaque)
