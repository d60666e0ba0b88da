"""The command: a real process, from its settings to its end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from registering import asking, registration

from pocketmq.protocol.bodies import parse_config_text
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.framing import FrameDecoder, encode_frame

COMMAND = (sys.executable, "-P", "-m", "pocketmq.namesrv")
ALONE = ("--listen", "127.0.0.1:0", "-o", "kvConfigPath=")
PATIENCE = 30.0


class Program:
    """A NameServer in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.host, self.port = "", 0

    def until_it_listens(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"INFO pocketmq\.namesrv: the NameServer listens on (.+):(\d+)$", line):
                self.host, self.port = found[1], int(found[2])
                return
        raise AssertionError("".join(self.lines))

    def ask(self, *commands: Command) -> list[Command]:
        """What commands are answered that come through one connection."""
        decoder, answers = FrameDecoder(), list[Command]()
        with socket.create_connection((self.host, self.port), PATIENCE) as connection:
            for command in commands:
                connection.sendall(encode_frame(command))
                while not (arrived := list(decoder.feed(connection.recv(256 * 1024)))):
                    pass
                answers += arrived
        return answers

    def settings(self) -> dict[str, str]:
        (answer,) = self.ask(asking(RequestCode.GET_NAMESRV_CONFIG))
        return parse_config_text(answer.body)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The code that it ends with."""
        self.process.send_signal(number)
        _, rest = self.process.communicate(timeout=PATIENCE)
        self.lines.append(rest)
        return self.process.returncode

    @property
    def log(self) -> str:
        return "".join(self.lines)


def environment(**variables: str) -> dict[str, str]:
    """This process's environment with these variables, and no other setting."""
    return {name: text for name, text in os.environ.items() if not name.startswith("POCKETMQ_")} | variables


@contextmanager
def running(*arguments: str | Path, **variables: str) -> Iterator[Program]:
    """The program, once it listens; it is gone after the block."""
    with subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, env=environment(**variables)
    ) as process:
        try:
            program = Program(process)
            program.until_it_listens()
            yield program
        finally:
            process.kill()


def ending(*arguments: str | Path, **variables: str) -> tuple[int, str]:
    """The code that the program ends with by itself, and what it says."""
    ended = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE, env=environment(**variables)
    )
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


# --- its life


def test_it_says_where_it_listens_answers_and_ends_when_it_is_told_to() -> None:
    with running(*ALONE) as program:
        assert program.host == "127.0.0.1"
        answers = program.ask(registration(), asking(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T"))
        assert [answer.code for answer in answers] == [0, 0]
        health = re.search(r"health is told at (http://127\.0\.0\.1:\d+/)", program.log)
        assert health is not None
        with urlopen(f"{health[1]}readyz", timeout=PATIENCE) as page:
            assert page.read() == b"ok\n"
        assert program.stop() == 0
        assert "SIGTERM: finishing what has begun" in program.log
        assert not re.search("WARNING|ERROR|Traceback", program.log)


def test_a_key_on_the_keyboard_ends_it_too() -> None:
    with running(*ALONE) as program:
        assert program.stop(signal.SIGINT) == 0


def test_a_client_that_stays_does_not_keep_it_from_ending() -> None:
    with running(*ALONE) as program, socket.create_connection((program.host, program.port), PATIENCE):
        assert program.stop() == 0


def test_key_values_are_there_after_a_restart(tmp_path: Path) -> None:
    arguments = ("--listen", "127.0.0.1:0", "-o", f"kvConfigPath={tmp_path / 'kv.json'}", "-o", "httpListen=off")
    with running(*arguments) as program:
        (answer,) = program.ask(asking(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v"))
        assert answer.code == 0
        program.process.kill()  # an answer is a promise
    with running(*arguments) as program:
        (answer,) = program.ask(asking(RequestCode.GET_KV_CONFIG, namespace="n", key="k"))
        assert answer.ext_fields == {"value": "v"}
        assert "health" not in program.log


# --- its settings


def test_settings_come_from_everywhere_and_the_nearest_counts(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text(
        "# where to listen is said elsewhere\n"
        "bindAddress=192.0.2.1\nlistenPort=1\nkvConfigPath=/nowhere\nserverWorkerThreads=8\n"
        "waitSecondsForService=1\nscanNotActiveBrokerInterval=1000\nenableTopicList=false\n"
    )
    variables = {
        "POCKETMQ_BIND_ADDRESS": "192.0.2.2",
        "POCKETMQ_WAIT_SECONDS_FOR_SERVICE": "2",
        "POCKETMQ_SCAN_NOT_ACTIVE_BROKER_INTERVAL": "2000",
    }
    with running("-c", file, *ALONE, "-o", "waitSecondsForService=3", **variables) as program:
        settings = program.settings()
        assert program.stop() == 0
    assert (settings["bindAddress"], settings["listenPort"], settings["kvConfigPath"]) == ("127.0.0.1", "0", "")
    assert settings["waitSecondsForService"] == "3"
    assert settings["scanNotActiveBrokerInterval"] == "2000"
    assert settings["enableTopicList"] == "false"
    assert f"WARNING pocketmq.service: {file} line 5: serverWorkerThreads has no effect here" in program.log


def test_a_file_may_be_toml(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.toml"
    file.write_text(
        'bindAddress = "127.0.0.1"\nlistenPort = 0\nkvConfigPath = ""\nhttpListen = "off"\nenableTopicList = false\n'
        'networks = "lan=10.0.0.0/8"\n'
    )
    with running("--config", file) as program:
        settings = program.settings()
        assert program.stop() == 0
    assert (settings["enableTopicList"], settings["networks"]) == ("false", "lan=10.0.0.0/8")


def test_everything_wrong_with_the_settings_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("listenPorts=9876\nenableTopicList=perhaps\n")
    code, said = ending("-c", file, "-o", "networks=lan", "-o", "kvConfigPath=")
    assert code == 2
    assert f"{file} line 1: there is no setting 'listenPorts'; did you mean 'listenPort'?" in said
    assert f"{file} line 2: enableTopicList: 'perhaps' is neither true nor false" in said
    assert "-o: networks: 'lan' is no NET=RULE,RULE" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--listen", "nowhere at all"), "'nowhere at all' is no address"),
        (("--listen", "127.0.0.1:65536"), "is no address"),
        (("-o", "listenPort"), "-o: 'listenPort' is no NAME=VALUE"),
        (("-o", "scanNotActiveBrokerInterval=0"), "scanNotActiveBrokerInterval is from 1 to 3600000"),
        (("-c", "/nowhere/at.all"), "the file /nowhere/at.all cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_argument_is_told(arguments: tuple[str, ...], problem: str) -> None:
    code, said = ending(*arguments)
    assert code == 2
    assert problem in said


def test_a_start_that_fails_is_told_in_lines(tmp_path: Path) -> None:
    damaged = tmp_path / "kv.json"
    damaged.write_text("{")
    code, said = ending("--listen", "127.0.0.1:0", "-o", f"kvConfigPath={damaged}")
    assert code == 1
    (line,) = said.splitlines()
    assert f"ERROR pocketmq.service: {damaged} is damaged: " in line
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, said = ending("--listen", address, "-o", "kvConfigPath=")
    assert code == 1
    (line,) = said.splitlines()
    assert f"cannot listen on {address}: Address already in use; change --listen, or bindAddress and listenPort" in line
