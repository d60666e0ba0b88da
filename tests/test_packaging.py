"""The root folders are the package: what is listed, what is built, and who may import whom."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PYPROJECT["tool"]["setuptools"]["packages"]
FOLDERS = sorted({package.split(".")[1] for package in PACKAGES})

# The arrows of ARCHITECTURE.md: each folder, and the folders that it may import besides itself.
MAY_IMPORT = {
    "cli": {"namesrv", "protocol", "remoting", "service", "storage"},
    "namesrv": {"protocol", "remoting", "service"},
    "protocol": set[str](),
    "remoting": {"protocol"},
    "service": {"protocol"},
    "storage": {"protocol"},
}

# Whatever waits, moves bytes or reads a clock has no place in the protocol.
IMPURE_MODULES = {"anyio", "asyncio", "mmap", "os", "pathlib", "select", "socket", "ssl", "threading", "trio"}
IMPURE_CALLS = {
    "open",
    "print",
    "time.monotonic",
    "time.perf_counter",
    "time.sleep",
    "time.time",
    "time.time_ns",
}

FIXTURES_LIMIT = 1_500_000


def modules_of(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def syntax_of(folder: str) -> Iterator[tuple[Path, ast.AST]]:
    """Every node of every module of the folder, with the module's path for the failure to name."""
    for path in modules_of(folder):
        for node in ast.walk(ast.parse(path.read_text())):
            yield path.relative_to(ROOT), node


def imports_of(folder: str) -> Iterator[tuple[Path, str]]:
    """Every imported name in full: `from a import b` gives `a.b`, and a relative one starts with a dot."""
    for path, node in syntax_of(folder):
        if isinstance(node, ast.Import):
            yield from ((path, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            yield from ((path, f"{source}.{alias.name}") for alias in node.names)


def test_the_listed_packages_are_the_folders_that_have_an_init_file() -> None:
    not_packages = {"tests", "benchmarks", "docs", "build", "dist"}
    tops = [top for top in ROOT.iterdir() if top.is_dir() and top.name not in not_packages and top.name[0] != "."]
    found = [init.parent.relative_to(ROOT).parts for top in tops for init in top.rglob("__init__.py")]
    assert sorted(PACKAGES) == sorted(".".join(("pocketmq", *parts)) for parts in found)


def test_make_type_checks_every_root_folder() -> None:
    database = subprocess.run(["make", "-pq", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    assert f"\nPACKAGES := {' '.join(FOLDERS)}\n" in database


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_root_folder_is_importable_below_pocketmq_only(folder: str) -> None:
    assert importlib.util.find_spec(folder) is None
    module = importlib.import_module(f"pocketmq.{folder}")
    assert module.__file__ == str(ROOT / folder / "__init__.py"), "another checkout is installed: make clean dev"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_root_folder_is_marked_as_typed(folder: str) -> None:
    assert (ROOT / folder / "py.typed").is_file()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_root_folder_imports_only_the_folders_it_may(folder: str) -> None:
    allowed = {folder} | MAY_IMPORT[folder]
    ours = [(path, name) for path, name in imports_of(folder) if name.split(".")[0] == "pocketmq"]
    assert [(path, name) for path, name in ours if name.split(".")[1] not in allowed] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_are_absolute(folder: str) -> None:
    assert [(path, name) for path, name in imports_of(folder) if name.startswith(".")] == []


def test_the_protocol_is_pure() -> None:
    imports = list(imports_of("protocol"))
    calls = [(path, ast.unparse(node.func)) for path, node in syntax_of("protocol") if isinstance(node, ast.Call)]
    assert [(path, name) for path, name in imports if name.split(".")[0] in IMPURE_MODULES] == []
    assert [(path, name) for path, name in imports + calls if name in IMPURE_CALLS] == []


def test_a_plain_socket_needs_no_event_loop() -> None:
    program = "import sys, pocketmq.remoting.blocking; print({'anyio', 'asyncio', 'trio'} & sys.modules.keys())"
    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("set()\n", "")


def test_the_fixtures_stay_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "tests/fixtures").rglob("*") if path.is_file()) < FIXTURES_LIMIT


def tracked_files() -> list[str]:
    if shutil.which("git") is None:
        pytest.skip("git is not here to tell what belongs to the checkout")
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip(f"git does not tell what belongs to the checkout: {listing.stderr.strip()}")
    return listing.stdout.splitlines()


def test_a_source_archive_holds_every_file_of_the_checkout(tmp_path: Path) -> None:
    copy, files = tmp_path / "checkout", tracked_files()
    for file in files:
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, copy / file)
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=copy, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("pocketmq-*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert [file for file in files if file not in names] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built as pip would but in a copy: a build leaves its traces in the tree."""
    copy, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("wheel")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(out)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=copy, check=True, capture_output=True)
    return next(out.glob("pocketmq-*.whl"))


def test_a_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    sources = [path for folder in FOLDERS for path in [*modules_of(folder), ROOT / folder / "py.typed"]]
    expected = {f"pocketmq/{path.relative_to(ROOT).as_posix()}" for path in sources}
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in names if ".dist-info/" not in name} == expected


def test_every_module_of_an_unpacked_wheel_imports(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    files = [path.relative_to(tmp_path).with_suffix("") for path in (tmp_path / "pocketmq").rglob("*.py")]
    modules = sorted(".".join(file.parts).removesuffix(".__init__") for file in files)
    program = "import importlib, sys\nfor name in sys.argv[1:]: print(importlib.import_module(name).__file__)"
    run = subprocess.run(
        [sys.executable, "-P", "-c", program, *modules],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert run.stderr == ""
    assert all(Path(line).is_relative_to(tmp_path) for line in run.stdout.splitlines())
