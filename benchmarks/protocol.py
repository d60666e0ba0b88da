"""How fast send requests are decoded and answered: by the codec alone, and by the server through a socket.

    python benchmarks/protocol.py [--seconds 0.4] [--rounds 5]

Each row is a burst of SEND_MESSAGE_V2 frames in one encoding. Two references run beside it, in turns:

- *bare*: `msgpack.unpackb` or `orjson.loads` of the same headers and nothing else (RocketMQ's binary header has no
  such library);
- *echo*: a trio server that sends back whatever it receives, without looking at it.

The lines below the table compare with what is to be reached: 15 % of bare by the codec (MSGPACK and JSON, in every
row), 50 % of the echo by the server for single frames, and at 256 frames 8 times the echo's rate for single ones.

Servers run in a process of their own, the load comes from this one through a blocking socket, one burst at a time.
Every rate is the best of its rounds: what disturbs a run only ever makes it slower. The shares of bare and echo are
medians of what they were in each round, where both were disturbed alike.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import truediv
from statistics import median
from typing import Any, Final, NamedTuple

import msgpack
import orjson
import trio

from pocketmq.protocol.codes import Encoding, RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.fields import codec, encode_header
from pocketmq.protocol.framing import FrameDecoder, encode_frame, encode_head
from pocketmq.protocol.headers.produce import SendMessageRequestV2, SendMessageResponse
from pocketmq.remoting.handlers import Request, Service
from pocketmq.remoting.server import Server

BURSTS: Final = (1, 16, 64, 256)
BODIES: Final = (100, 1024)
ANSWER: Final = SendMessageResponse("7F00000100002A9F0000000000003039", 1, 12345)


class Case(NamedTuple):
    """One row: what a client sends at once."""

    encoding: Encoding
    body_size: int
    burst: int

    def frame(self, opaque: int) -> bytes:
        header = SendMessageRequestV2(
            "bench-producer",
            "BenchTopic",
            "TBW102",
            4,
            1,
            0,
            1_700_000_000_000,
            0,
            f"UNIQ_KEY\x010A000001C35018B4AAC2{opaque:012X}\x02WAIT\x01true\x02TAGS\x01TagA\x02",
            reconsume_times=0,
            broker_name="broker-a",
        )
        ext_fields, body = encode_header(header), bytes(self.body_size)
        return encode_frame(Command(RequestCode.SEND_MESSAGE_V2, ext_fields, body, opaque, encoding=int(self.encoding)))

    def frames(self) -> list[bytes]:
        return [self.frame(opaque) for opaque in range(self.burst)]


CASES: Final = [Case(encoding, body, burst) for encoding in Encoding for body in BODIES for burst in BURSTS]


# --- the codec alone ---


def decode_and_answer(case: Case) -> Callable[[], object]:
    """All that a server does with a burst but the reading, the work and the writing."""
    data = b"".join(case.frames())
    decoder, decode = FrameDecoder(), codec(SendMessageRequestV2).decode

    def run() -> bytes:
        answers = []
        for request in decoder.feed(data):
            decode(request.ext_fields)
            answers.append(encode_head(request.reply(0, encode_header(ANSWER))))
        return b"".join(answers)

    return run


def bare(case: Case) -> Callable[[], object] | None:
    """The library's decoder on the same headers."""
    headers = [frame[8 : 8 + int.from_bytes(frame[5:8])] for frame in case.frames()]
    unpack = {Encoding.JSON: orjson.loads, Encoding.MSGPACK: msgpack.unpackb}.get(case.encoding)
    return None if unpack is None else lambda: [unpack(header) for header in headers]


# --- through a socket ---


class NoWork(Service):
    """Answers every send at once."""

    def __init__(self) -> None:
        self.handlers = {RequestCode.SEND_MESSAGE_V2: self.send}

    @staticmethod
    def send(request: Request[SendMessageRequestV2]) -> Command:
        return request.reply(ANSWER)


async def echo(stream: trio.SocketStream) -> None:
    async with stream:
        while data := await stream.receive_some(256 * 1024):
            await stream.send_all(data)


async def serve() -> None:
    """Both servers; their ports are printed, and they end with the standard input."""
    listeners = {name: await trio.open_tcp_listeners(0, host="127.0.0.1") for name in ("server", "echo")}
    print(json.dumps({name: ours[0].socket.getsockname()[1] for name, ours in listeners.items()}), flush=True)
    async with trio.open_nursery() as nursery:
        await nursery.start(Server(NoWork()).serve, listeners["server"])
        nursery.start_soon(trio.serve_listeners, echo, listeners["echo"])
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


@contextmanager
def server_process() -> Iterator[dict[str, int]]:
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield json.loads(process.stdout.readline())
        process.communicate()


def exchange(connection: socket.socket, case: Case) -> Callable[[], object]:
    """Send a burst and take as many bytes as the first such burst was answered with."""
    data = b"".join(case.frames())
    connection.sendall(data)
    decoder, answers, expected = FrameDecoder(), 0, 0
    while answers < case.burst:
        received = connection.recv(1 << 20)
        expected += len(received)
        answers += sum(1 for _ in decoder.feed(received))

    def run() -> None:
        connection.sendall(data)
        missing = expected
        while missing:
            missing -= len(connection.recv(1 << 20))

    return run


# --- measuring ---


def rate(run: Callable[[], object], frames: int, seconds: float) -> float:
    """Frames a second over some time."""
    begin = now = time.perf_counter()
    bursts = 0
    while now - begin < seconds:
        run()
        bursts += 1
        now = time.perf_counter()
    return bursts * frames / (now - begin)


class Result(NamedTuple):
    """The rates of one case, round by round."""

    rounds: dict[str, list[float]]

    def best(self, name: str) -> float | None:
        return max(self.rounds[name]) if name in self.rounds else None

    def share(self, name: str, reference: str) -> float | None:
        if reference not in self.rounds:
            return None
        return float(median(map(truediv, self.rounds[name], self.rounds[reference])))


def measure(case: Case, connections: Mapping[str, socket.socket], options: Any) -> Result:
    """All runs in turns, so that a disturbance meets all of them."""
    runs = {"codec": decode_and_answer(case)}
    if (reference := bare(case)) is not None:
        runs["bare"] = reference
    runs |= {name: exchange(connection, case) for name, connection in connections.items()}
    rounds = [
        {name: rate(run, case.burst, options.seconds / options.rounds) for name, run in runs.items()}
        for _ in range(options.rounds)
    ]
    return Result({name: [each[name] for each in rounds] for name in runs})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=0.4, help="for each figure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        trio.run(serve)
        return
    with server_process() as ports:
        connections = {name: socket.create_connection(("127.0.0.1", port)) for name, port in ports.items()}
        for connection in connections.values():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        results = {case: measure(case, connections, options) for case in CASES}
        print_table(results)
        print_goals(results)
        for connection in connections.values():
            connection.close()


def times_single(results: Mapping[Case, Result], case: Case) -> float:
    """The server's rate in terms of the echo's for single frames."""
    served, single = results[case].best("server"), results[case._replace(burst=1)].best("echo")
    assert served
    assert single
    return served / single


def print_table(results: Mapping[Case, Result]) -> None:
    print("frames a second, in thousands; single = the echo's rate for one such frame at a time\n")
    titles = ("codec", "bare", "of bare", "server", "echo", "of echo", "of single")
    print(f"{'encoding':10}{'body':>6}{'burst':>7}", *(f"{title:>10}" for title in titles))
    for case, result in results.items():
        cells = [
            _thousands(result.best("codec")),
            _thousands(result.best("bare")),
            _percent(result.share("codec", "bare")),
            _thousands(result.best("server")),
            _thousands(result.best("echo")),
            _percent(result.share("server", "echo")),
            f"{times_single(results, case):.1f} x",
        ]
        print(f"{case.encoding.name:10}{case.body_size:>6}{case.burst:>7}", *(f"{cell:>10}" for cell in cells))


def print_goals(results: Mapping[Case, Result]) -> None:
    print("\nlowest of all rows, and what is to be reached")
    for encoding in Encoding:
        rows = {case: result for case, result in results.items() if case.encoding == encoding}
        of_bare = [share for result in rows.values() if (share := result.share("codec", "bare"))]
        of_echo = [rows[case].share("server", "echo") or 0 for case in rows if case.burst == 1]
        of_single = [times_single(results, case) for case in rows if case.burst == 256]
        bare = f"codec {_percent(min(of_bare))} of bare (15 %), " if of_bare else ""
        print(
            f"{encoding.name:10}{bare}server {_percent(min(of_echo))} of the echo, one at a time (50 %), "
            f"{min(of_single):.1f} x its single rate at 256 (8 x)"
        )


def _thousands(rate: float | None) -> str:
    return "-" if rate is None else f"{rate / 1000:.1f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


if __name__ == "__main__":
    main()
