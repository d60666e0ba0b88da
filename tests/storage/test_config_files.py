"""Config files: both layouts of RocketMQ, what is left after damage, and what a crash leaves of a save."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketmq.protocol.errors import LocalProtocolError
from pocketmq.protocol.fastjson import MAX_DIALECT, dumps, loads
from pocketmq.storage import config_files, disk
from pocketmq.storage.config_files import ConfigFile
from pocketmq.storage.errors import DiskFullError, StoreUnusableError

# How 4.9.7 and 5.5.0 lay out a map with integer keys.
JAVA_4 = b'{\n\t"offsetTable":{\n\t\t"FTags@CG_main":{0:5,1:0,2:0,3:8\n\t\t}\n\t}\n}'
JAVA_5 = (
    b'{\n\t"dataVersion":{\n\t\t"counter":0,\n\t\t"stateVersion":0,\n\t\t"timestamp":1794975277300\n\t},\n'
    b'\t"offsetTable":{\n\t\t"FTags@CG_main":{\n\t\t\t0:5,\n\t\t\t1:0,\n\t\t\t2:0,\n\t\t\t3:8\n\t\t}\n\t},\n'
    b'\t"pullOffsetTable":{}\n}'
)
TABLE = {"FTags@CG_main": {0: 5, 1: 0, 2: 0, 3: 8}}
LAYOUTS: dict[bytes, dict[str, Any]] = {
    JAVA_4: {"offsetTable": TABLE},
    JAVA_5: {
        "dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 1794975277300},
        "offsetTable": TABLE,
        "pullOffsetTable": {},
    },
    b'{"offsetTable":{"t@g":{"0":8,"1":7}}}': {"offsetTable": {"t@g": {"0": 8, "1": 7}}},
    b"{}": {},
}

OLD = {"offsetTable": {"t@g": {0: 1}}, "from another version": [1, 2]}
OLDER = {"offsetTable": {"t@g": {0: 0}}}
NEW = {"offsetTable": {"t@g": {0: 2}}, "from another version": [1, 2]}


def written(document: dict[str, Any]) -> bytes:
    return dumps(document, bare_integer_keys=True)


DAMAGES = {
    "empty": b"",
    "blank": b" \n",
    "zeros": bytes(4096),
    "garbage": b"\x8f\xff\x00{\xfe",
    "not UTF-8": b'{"a":"\xff"}',
    "an array": b"[1]",
    "a number": b"12",
    "null": b"null",
    "text behind": b"{} {}",
    "too deep": b'{"a":' * 65 + b"1" + b"}" * 65,
    "half": JAVA_5[:100],
}
damaged = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())


class PowerCutError(Exception):
    """The machine went off."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "offsets.json"


def backup_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.bak")


def lay_out(path: Path, main: bytes | None, backup: bytes | None) -> None:
    for file, content in (path, main), (backup_of(path), backup):
        if content is not None:
            file.write_bytes(content)


def files_beside(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert {(record.name, record.levelname) for record in caplog.records} <= {("pocketmq.storage", "WARNING")}
    return [record.getMessage() for record in caplog.records]


# Loading.


@pytest.mark.parametrize(("raw", "document"), LAYOUTS.items(), ids=["4.9.7", "5.5.0", "quoted", "nothing"])
def test_the_layouts_of_both_versions_are_read(
    path: Path, raw: bytes, document: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(raw)
    assert ConfigFile(path).load() == document
    assert not messages(caplog)


def test_before_the_first_save_the_document_is_empty(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert ConfigFile(path).load() == {}
    assert ConfigFile(path.parent / "no folder" / path.name).load() == {}
    assert not messages(caplog)


@damaged
def test_a_damaged_file_is_replaced_by_its_backup(path: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    lay_out(path, damage, JAVA_4)
    assert ConfigFile(path).load() == LAYOUTS[JAVA_4]
    (message,) = messages(caplog)
    assert message.startswith(f"{path} is ")
    assert message.endswith("using offsets.json.bak instead")


def test_a_missing_file_is_replaced_by_its_backup(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lay_out(path, None, JAVA_5)
    assert ConfigFile(path).load() == LAYOUTS[JAVA_5]
    assert messages(caplog) == [f"{path} is missing: using offsets.json.bak instead"]


@damaged
def test_nothing_is_left_when_the_backup_is_damaged_too(
    path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    lay_out(path, damage, damage)
    assert ConfigFile(path).load() == {}
    first, second = messages(caplog)
    assert first.startswith(f"{path} is ")
    assert second.startswith(f"{backup_of(path)} is ")
    assert second.endswith("using an empty document instead")


def test_a_damaged_file_without_a_backup_leaves_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lay_out(path, b"", None)
    assert ConfigFile(path).load() == {}
    assert messages(caplog) == [
        f"{path} is empty: using offsets.json.bak instead",
        f"{backup_of(path)} is missing: using an empty document instead",
    ]


@pytest.mark.parametrize("layout", [JAVA_4, JAVA_5], ids=["4.9.7", "5.5.0"])
def test_a_file_cut_at_any_byte_is_replaced_by_its_backup(path: Path, layout: bytes) -> None:
    for length in range(len(layout)):
        lay_out(path, layout[:length], b'{"whole":true}')
        assert ConfigFile(path).load() == {"whole": True}
        lay_out(path, None, layout[:length])
        assert ConfigFile(path).load() == {}


def test_loading_changes_nothing_on_disk(path: Path) -> None:
    lay_out(path, b"{damaged", b"[")
    before = files_beside(path)
    ConfigFile(path).load()
    assert files_beside(path) == before


@pytest.mark.parametrize("refused", ["offsets.json", "offsets.json.bak"])
def test_what_the_system_does_not_let_us_read_is_not_taken_for_damage(path: Path, refused: str) -> None:
    path.with_name(refused).mkdir()
    with pytest.raises(StoreUnusableError, match=f"{refused}: cannot be read: Is a directory; make it readable"):
        ConfigFile(path).load()


def test_a_document_larger_than_peers_may_send_is_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "x" * MAX_DIALECT + '{0:1, "é\\'
    document = {"a": text, "offsetTable": {"t@g": {0: 8, -1: 7}, "12": [1, 2]}, text: 1}
    file = ConfigFile(path)
    file.save(document)
    assert b'"t@g":{0:8,-1:7}' in path.read_bytes()
    assert ConfigFile(path).load() == document | {"offsetTable": {"t@g": {"0": 8, "-1": 7}, "12": [1, 2]}}
    lay_out(path, b" " * MAX_DIALECT + JAVA_4, b" " * MAX_DIALECT + JAVA_5)
    as_text = {"FTags@CG_main": {"0": 5, "1": 0, "2": 0, "3": 8}}
    assert ConfigFile(path).load() == LAYOUTS[JAVA_4] | {"offsetTable": as_text}
    path.unlink()
    assert ConfigFile(path).load() == LAYOUTS[JAVA_5] | {"offsetTable": as_text}
    assert messages(caplog) == [f"{path} is missing: using offsets.json.bak instead"]


# Saving.


def test_a_saved_document_is_loaded(path: Path) -> None:
    file = ConfigFile(path)
    file.save(NEW)
    assert file.load() == ConfigFile(path).load() == NEW
    assert files_beside(path) == {path.name: b'{"offsetTable":{"t@g":{0:2}},"from another version":[1,2]}'}


def test_the_folder_is_made_when_it_is_needed(path: Path) -> None:
    path = path.parent / "store" / "config" / path.name
    ConfigFile(path).save(NEW)
    assert ConfigFile(path).load() == NEW


def test_the_backup_is_the_document_before(path: Path) -> None:
    file = ConfigFile(path)
    for generation in range(4):
        file.save({"generation": generation})
    assert files_beside(path) == {path.name: b'{"generation":3}', backup_of(path).name: b'{"generation":2}'}


def test_members_that_nobody_here_knows_survive(path: Path) -> None:
    path.write_bytes(JAVA_5)
    file = ConfigFile(path)
    file.save(file.load())
    assert ConfigFile(path).load() == LAYOUTS[JAVA_5]
    assert backup_of(path).read_bytes() == JAVA_5


@pytest.mark.parametrize("document", [{"a": object()}, {1.5: 2}, {"a": float("nan")}])
def test_what_cannot_be_written_changes_nothing(path: Path, document: Any) -> None:
    lay_out(path, written(OLD), written(OLDER))
    before = files_beside(path)
    with pytest.raises(LocalProtocolError):
        ConfigFile(path).save(document)
    assert files_beside(path) == before


def test_what_was_saved_here_is_not_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(path, written(OLD), written(OLDER))
    reads: list[bytes] = []

    def watched_loads(raw: bytes) -> Any:
        reads.append(raw)
        return loads(raw)

    monkeypatch.setattr(config_files, "loads", watched_loads)
    file = ConfigFile(path)
    file.save(NEW)
    assert reads == [written(OLD), written(OLDER)]
    file.save(OLD)
    file.save(NEW)
    assert len(reads) == 2


def test_a_full_disk_is_named_and_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    lay_out(path, written(OLD), written(OLDER))
    monkeypatch.setattr(disk, "sync_data", no_room)
    with pytest.raises(DiskFullError, match=r"offsets\.json.*free some space or change storePathRootDir"):
        ConfigFile(path).save(NEW)
    assert ConfigFile(path).load() == OLD


# What could not be read.


@damaged
@pytest.mark.parametrize("loaded", [True, False])
def test_a_damaged_file_moves_aside_and_the_good_backup_stays(
    path: Path, damage: bytes, loaded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    lay_out(path, damage, written(OLD))
    file = ConfigFile(path)
    if loaded:
        file.load()
    caplog.clear()
    file.save(NEW)
    assert files_beside(path) == {
        path.name: written(NEW),
        "offsets.json.bak": written(OLD),
        "offsets.json.unreadable": damage,
    }
    (message,) = messages(caplog)
    assert message.startswith(f"{path} is ")
    assert message.endswith("moving it to offsets.json.unreadable")


@damaged
def test_a_damaged_backup_moves_aside_when_its_place_is_needed(path: Path, damage: bytes) -> None:
    lay_out(path, written(OLD), damage)
    ConfigFile(path).save(NEW)
    assert files_beside(path) == {
        path.name: written(NEW),
        "offsets.json.bak": written(OLD),
        "offsets.json.bak.unreadable": damage,
    }


def test_when_both_are_damaged_both_are_kept(path: Path) -> None:
    lay_out(path, b"{main", b"{backup")
    file = ConfigFile(path)
    file.save(OLD)
    file.save(NEW)
    kept = files_beside(path)
    assert kept["offsets.json.unreadable"] == b"{main"
    assert kept["offsets.json.bak.unreadable"] == b"{backup"
    assert ConfigFile(path).load() == NEW


def test_no_unreadable_file_takes_the_place_of_an_earlier_one(path: Path) -> None:
    for damage in b"{first", b"{second", b"{third":
        path.write_bytes(damage)
        ConfigFile(path).save(NEW)
    kept = files_beside(path)
    assert kept["offsets.json.unreadable"] == b"{first"
    assert kept["offsets.json.unreadable.2"] == b"{second"
    assert kept["offsets.json.unreadable.3"] == b"{third"


@pytest.mark.parametrize("victim", ["offsets.json", "offsets.json.bak"])
def test_damage_between_two_saves_is_noticed(path: Path, victim: str) -> None:
    file = ConfigFile(path)
    file.save(OLDER)
    file.save(OLD)
    path.with_name(victim).write_bytes(b"{damaged by an editor")
    file.save(NEW)
    assert files_beside(path)[f"{victim}.unreadable"] == b"{damaged by an editor"
    path.unlink()
    assert ConfigFile(path).load() == (OLDER if victim == path.name else OLD)


# Crashes.

GOOD, GOOD_BACKUP, BAD, BAD_BACKUP = written(OLD), written(OLDER), b'{"main":', b'{"backup":'
BEFORE = {
    "both": (GOOD, GOOD_BACKUP),
    "no backup": (GOOD, None),
    "only a backup": (None, GOOD_BACKUP),
    "neither": (None, None),
    "damaged": (BAD, GOOD_BACKUP),
    "damaged without backup": (BAD, None),
    "damaged backup": (GOOD, BAD_BACKUP),
    "only a damaged backup": (None, BAD_BACKUP),
    "both damaged": (BAD, BAD_BACKUP),
}
before_saving = pytest.mark.parametrize(("main", "backup"), BEFORE.values(), ids=BEFORE.keys())


class Disk:
    """Goes off before the step with a given number; what was not synced by then is only half there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps_left: int) -> None:
        self._steps_left = steps_left
        for where, name in (os, "rename"), (os, "replace"), (disk, "sync_data"), (disk, "sync_folder"):
            monkeypatch.setattr(where, name, self._watched(name, getattr(where, name)))

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            if not self._steps_left:
                if name == "sync_data":
                    os.truncate(arguments[0], os.fstat(arguments[0]).st_size // 2)
                raise PowerCutError
            self._steps_left -= 1
            return function(*arguments)

        return watched


def damaged_contents(path: Path) -> set[bytes]:
    return {BAD, BAD_BACKUP} & set(files_beside(path).values())


@before_saving
@pytest.mark.parametrize("step", range(7))
@pytest.mark.parametrize("loaded", [True, False])
def test_a_crash_leaves_the_old_document_or_the_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, main: bytes | None, backup: bytes | None, step: int, loaded: bool
) -> None:
    lay_out(path, main, backup)
    old, damage = ConfigFile(path).load(), damaged_contents(path)
    file = ConfigFile(path)
    if loaded:
        file.load()
    with monkeypatch.context() as patch:
        Disk(patch, step)
        try:
            file.save(NEW)
        except PowerCutError:
            assert ConfigFile(path).load() in (old, NEW)
        else:
            assert ConfigFile(path).load() == NEW
    assert damaged_contents(path) == damage
    for saver in ConfigFile(path), file:  # the next process; or this one, if it was only an error of the disk
        saver.save(NEW)
        assert ConfigFile(path).load() == NEW
        assert damaged_contents(path) == damage


@before_saving
def test_the_steps_of_a_save_are_fewer_than_the_crashes_tried(
    path: Path, monkeypatch: pytest.MonkeyPatch, main: bytes | None, backup: bytes | None
) -> None:
    lay_out(path, main, backup)
    Disk(monkeypatch, 6)
    ConfigFile(path).save(NEW)


@pytest.mark.parametrize("rest", [b"", b'{"half', b'{"whole":true}'])
def test_what_a_crash_left_of_a_new_file_is_never_read(path: Path, rest: bytes) -> None:
    lay_out(path, written(OLD), written(OLDER))
    path.with_name("offsets.json.tmp").write_bytes(rest)
    assert ConfigFile(path).load() == OLD
    ConfigFile(path).save(NEW)
    assert ConfigFile(path).load() == NEW
    assert sorted(files_beside(path)) == ["offsets.json", "offsets.json.bak"]
