"""A NameServer with many topics: how soon it answers, how long registrations and routes take, how much memory it has.

    python benchmarks/namesrv.py [--topics 10000] [--brokers 8] [--seconds 10] [--every 4]

It runs as a process of its own, and so do the brokers. They register all topics, and then again `--every` so many
seconds each (RocketMQ's do it every 30), every other time with topics that have changed. Meanwhile this process asks
for routes, one at a time, on one connection, for random topics. The line above that row is the same without brokers
registering; the difference is what they cost those who ask.

How soon it answers depends on the machine more than on anything here, so that is shown beside a process that does
nothing but load trio.

What is to be reached: the first answer within 0.5 s of the start and 60 MB of memory then; a registration of 10,000
topics within 1 s; 99 of 100 routes within 5 ms while brokers register.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from pocketmq.protocol.bodies import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.hashes import body_crc
from pocketmq.protocol.headers.namesrv import GetRouteInfoRequest, RegisterBrokerRequest
from pocketmq.remoting.blocking import BlockingConnection, connect_blocking

HOST: Final = "127.0.0.1"
MB: Final = 1 << 20
TIMEOUT: Final = 30.0


# --- the NameServer


class Started(NamedTuple):
    """A NameServer that has answered."""

    process: subprocess.Popen[str]
    port: int
    seconds: float

    def memory(self) -> float:
        """MB of resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024 / MB


@contextmanager
def namesrv() -> Iterator[Started]:
    """Start one; the seconds are those until it has answered for the first time."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "pocketmq.namesrv", "--listen", f"{HOST}:0", "-o", "kvConfigPath="]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            lines = iter(process.stderr.readline, "")
            port = next(int(found[1]) for line in lines if (found := re.search(r"listens on \S+:(\d+)", line)))
            with connect_blocking(HOST, port) as connection:
                ask_route(connection, "T")
            yield Started(process, port, time.perf_counter() - begin)
        finally:
            process.terminate()


def load_trio() -> float:
    """Seconds of a process that does no more than that."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import trio"], check=True)
    return time.perf_counter() - begin


def ask_route(connection: BlockingConnection, topic: str) -> int:
    return connection.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic), timeout=TIMEOUT).code


# --- brokers, in a process of their own


class Broker:
    """One broker that registers its topics, as they are or with a change."""

    def __init__(self, port: int, number: int, topics: int) -> None:
        self.topics = {name: TopicConfig(topic_name=name, perm=6) for name in names(topics)}
        self.number = number
        self.version = 0
        self.body = b""
        self.connection = connect_blocking(HOST, port)

    def change(self) -> None:
        self.version += 1
        queues = 4 + self.version % 2
        topics = {name: TopicConfig(topic_name=name, write_queue_nums=queues, perm=6) for name in self.topics}
        wrapper = TopicConfigSerializeWrapper(
            topic_config_table=topics, data_version=DataVersion(counter=self.version, timestamp=self.version)
        )
        self.body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).to_json()

    def register(self) -> float:
        """Register; the milliseconds that it took."""
        header = RegisterBrokerRequest(
            f"broker-{self.number}",
            f"{HOST}:{20000 + self.number}",
            "BenchCluster",
            "",
            0,
            body_crc32=body_crc(self.body),
        )
        begin = time.perf_counter()
        answer = self.connection.request(RequestCode.REGISTER_BROKER, header, self.body, timeout=TIMEOUT)
        assert answer.code == 0, answer.remark
        return 1000 * (time.perf_counter() - begin)


def names(topics: int) -> list[str]:
    return [f"BenchTopic-{number:05}" for number in range(topics)]


def be_brokers(options: Any) -> None:
    """Register all, say so, and go on registering until the standard input ends."""
    brokers = [Broker(options.port, number, options.topics) for number in range(options.brokers)]
    for broker in brokers:
        broker.change()
    print(*(broker.register() for broker in brokers), flush=True)
    sys.stdin.readline()  # now, please
    times: dict[str, list[float]] = {"unchanged": [], "changed": []}
    end = time.perf_counter() + options.seconds
    pause = options.every / len(brokers)
    due = time.perf_counter()
    while time.perf_counter() < end:
        for broker in brokers:
            kind = "changed" if len(times["unchanged"]) > len(times["changed"]) else "unchanged"
            if kind == "changed":
                broker.change()
            time.sleep(max(0.0, due - time.perf_counter()))
            times[kind].append(broker.register())
            due += pause
        brokers.reverse()  # or with an even number of them, it would be the same ones that change
    for kind, each in times.items():
        print(kind, *each, flush=True)
    sys.stdin.read()


@contextmanager
def brokers(options: Any, port: int) -> Iterator[subprocess.Popen[str]]:
    arguments = [f"--{name}={getattr(options, name)}" for name in ("topics", "brokers", "seconds", "every")]
    command = [sys.executable, __file__, f"--port={port}", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.communicate()


# --- those who ask


def ask_for(connection: BlockingConnection, topics: list[str], seconds: float) -> list[float]:
    """Milliseconds that each of the routes took that were asked for in so many seconds."""
    chance = random.Random(1)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        code = ask_route(connection, chance.choice(topics))
        assert code == 0
        times.append(1000 * (time.perf_counter() - begin))
    return times


def print_times(what: str, times: list[float], goal: str = "") -> None:
    ordered = sorted(times)

    def percentile(part: float) -> float:
        return ordered[min(int(part * len(ordered)), len(ordered) - 1)]

    columns = [statistics.median(ordered), percentile(0.99), percentile(0.999), ordered[-1]]
    print(f"{what:42}{len(ordered):8}", *(f"{column:8.2f}" for column in columns), f"  {goal}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10, help="for each row")
    parser.add_argument("--every", type=float, default=4, help="seconds between two registrations of a broker")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.port:
        be_brokers(options)
    else:
        report(options)


def report(options: Any) -> None:
    topics = names(options.topics)
    starts = []
    for _ in range(3):
        alone = load_trio()
        with namesrv() as server:
            starts.append((server.seconds, alone, server.memory()))
    seconds, alone, memory = min(starts)
    print(f"start to first answer, best of three: {seconds:.2f} s (0.5), {seconds / alone:.1f} x what trio alone takes")
    print(f"resident then: {memory:.0f} MB (60)")
    with namesrv() as server, brokers(options, server.port) as others:
        assert others.stdin
        assert others.stdout
        first = [float(text) for text in others.stdout.readline().split()]
        print(f"{options.topics} topics on {options.brokers} brokers: resident {server.memory():.0f} MB\n")
        print(f"{'milliseconds':42}{'number':>8}{'median':>9}{'p99':>9}{'p99.9':>9}{'worst':>9}")
        print_times("first registration", first, "worst: 1000")
        with connect_blocking(HOST, server.port) as connection:
            print_times("route, nobody registers", ask_for(connection, topics, options.seconds))
            others.stdin.write("\n")
            others.stdin.flush()
            during = ask_for(connection, topics, options.seconds)
            print_times(f"route, each registers every {options.every:g} s", during, "p99: 5")
        for _ in range(2):
            kind, *times = others.stdout.readline().split()
            print_times(f"registration, {kind}", [float(text) for text in times], "worst: 1000")
        print(f"\nresident at the end: {server.memory():.0f} MB")


if __name__ == "__main__":
    main()
