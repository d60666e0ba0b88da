from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest
from click.testing import CliRunner, Result

from pocketmq.cli.main import main


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="pocketmq")


def test_version_is_that_of_the_installed_package() -> None:
    assert run("--version").output == f"pocketmq {version('pocketmq')}\n"


def test_the_help_lists_every_command_with_what_it_does() -> None:
    result = run("--help")
    assert result.exit_code == 0
    listed = result.output.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == ["codes", "namesrv"]
    assert all(len(line.split()) > 3 for line in listed)


def test_a_command_that_is_none_is_refused() -> None:
    result = run("namesvr")
    assert result.exit_code == 2
    assert "No such command 'namesvr'" in result.output


@pytest.mark.parametrize(
    ("arguments", "told"), [(["--help"], "Run a NameServer"), (["namesrv", "--help"], "--listen HOST[:PORT]")]
)
def test_the_help_loads_neither_an_event_loop_nor_numpy(arguments: list[str], told: str) -> None:
    program = (
        "import sys\nfrom pocketmq.cli.main import main\n"
        f"try:\n    main({arguments!r})\n"
        "except SystemExit:\n    print({'anyio', 'asyncio', 'trio', 'numpy', 'rich'} & sys.modules.keys())"
    )
    result = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "set()"
    assert told in result.stdout
