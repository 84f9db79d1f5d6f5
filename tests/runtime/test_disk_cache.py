"""The disk cache: one compilation among processes, whole entries only, and a hit that imports nothing heavy."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from scalec.runtime import cache
from scalec.runtime.cache import Compiled
from scalec.sizes import Range
from tests.runtime.fake import gemm_spec, machine_code

KEY = "ab" + "0" * 62
MADE = Compiled(
    gemm_spec(), machine_code(gemm_spec(), bytes(range(256)) * 40), "// PTX\n.visible .entry C() { ret; }\n"
)
OTHER = "cd" + KEY[2:]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SCALEC_CACHE_DIR", str(tmp_path / "kernels"))
    cache._warned.clear()
    return tmp_path / "kernels"


def test_what_is_put_is_got(folder):
    assert cache.get(KEY) is None
    assert cache.put(KEY, MADE)
    assert cache.get(KEY) == MADE
    assert sorted(p.name for p in folder.iterdir()) == [KEY + ".kernel", "locks"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_entries_size_and_clear(folder):
    assert (cache.entries(), cache.usage(), cache.clear()) == ([], (0, 0), 0)
    cache.put(KEY, MADE)
    cache.put(OTHER, MADE._replace(spec=gemm_spec(k=7168)))
    newest, _ = cache.entries()
    assert (newest.key[:2], newest.target, newest.dims, newest.source) == (
        "cd",
        "sm_90a",
        {"k": 7168},
        MADE.spec.source,
    )
    assert newest.size == (folder / (newest.key + ".kernel")).stat().st_size
    assert abs(newest.written - time.time()) < 60
    assert cache.usage() == (2, sum(p.stat().st_size for p in folder.glob("*.kernel")))
    assert (cache.clear(), cache.entries(), cache.usage()) == (2, [], (0, 0))


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "other", "folder", "fifo", "link to a fifo", "key"])
def test_a_damaged_entry_is_compiled_again_and_replaced(folder, damage):
    cache.put(KEY, MADE)
    path = folder / (KEY + ".kernel")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage == "fifo":  # which was waited for until somebody wrote it
        os.mkfifo(path)
    elif damage == "link to a fifo":
        os.mkfifo(folder / "fifo")
        path.symlink_to("fifo")
    elif damage == "key":  # an entry that is whole, of another kernel
        path.write_bytes(cache.encode(OTHER, MADE))
    else:
        path.write_bytes({"bit": bytes(data), "cut": bytes(data[:-5]), "empty": b"", "other": b"not ours"}[damage])
    assert cache.get(KEY) is None
    assert cache.entries() == [] or damage == "key"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cache.get_or_compile(KEY, lambda: MADE) == MADE
    if damage != "folder":
        assert cache.get(KEY) == MADE


def test_a_writer_that_dies_leaves_no_entry(folder, monkeypatch):
    def dies(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", dies)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        assert not cache.put(KEY, MADE)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("field", ["spec", "cubin", "ptx", "written"])
@pytest.mark.parametrize("value", ["[" * 5000, '"a"', "[]", "{}", "-1", "1" * 400, "1e999", "null"])
def test_an_entry_that_is_sealed_and_no_kernel_is_compiled_again(folder, field, value):
    """A TypeError, a RecursionError or a KeyError before."""
    cache.put(KEY, MADE)
    path = folder / (KEY + ".kernel")
    head, _, body = cache._payload(path.read_bytes()).partition(b"\n")
    fields = json.loads(head)
    fields[field] = "HERE"
    path.write_bytes(cache._sealed(json.dumps(fields).replace('"HERE"', value).encode() + b"\n" + body))
    assert cache.get(KEY) is None
    assert cache.entries() == []
    assert cache.get_or_compile(KEY, lambda: MADE) == MADE


def test_notes_are_sealed_and_of_the_type_that_is_asked_for(folder):
    kind = tuple[Range, ...]
    made = (Range(1, 64), Range(65, 128))
    assert cache.remember(KEY, kind, lambda: made) == made
    assert cache.remember(KEY, kind, lambda: ()) == made
    path = folder / (KEY + ".note")
    os.replace(path, folder / (OTHER + ".note"))
    assert cache.remember(OTHER, kind, lambda: made[:1]) == made[:1]
    for damaged in (b"[[1, 64]]", b"[" * 5000, cache._sealed(b"[" * 5000), cache._sealed(b'{"key": "", "value": 1}')):
        path.write_bytes(damaged)
        assert cache.remember(KEY, kind, lambda: made[1:]) == made[1:]
        path.write_bytes(cache._sealed(json.dumps({"key": KEY, "value": [["1", 2]]}).encode()))
        assert cache.remember(KEY, kind, lambda: made) == made


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_directory_that_others_can_write_is_not_used(folder, mode):
    cache.put(KEY, MADE)
    folder.chmod(mode)
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    with pytest.warns(RuntimeWarning, match=rf"others can write it \(mode {mode:o}\).*chmod go-w"):
        assert cache.get_or_compile(KEY, lambda: MADE._replace(ptx="anew")).ptx == "anew"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        assert cache.remember(KEY, int, lambda: 5) == 5
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before
    folder.chmod(0o755)
    assert cache.get(KEY) == MADE


def test_whatever_the_umask_is_an_entry_is_a_hit(folder):
    before = os.umask(0)
    try:
        cache.put(KEY, MADE)
        cache.get_or_compile(OTHER, lambda: MADE)
    finally:
        os.umask(before)
    assert cache.get(KEY) == MADE
    assert {stat.S_IMODE(p.stat().st_mode) & 0o022 for p in (folder, folder / "locks", *folder.glob("*.kernel"))} == {0}


@pytest.mark.parametrize("which", ["directory", "entry"])
def test_what_another_user_owns_is_not_used(folder, monkeypatch, which):
    cache.put(KEY, MADE)
    real = os.stat if which == "directory" else os.fstat

    def of_another(path, **options):
        facts = real(path, **options)
        return os.stat_result([*facts[:4], os.geteuid() + 1, *facts[5:]])

    monkeypatch.setattr(cache.os, real.__name__, of_another)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cache.get(KEY) is None


def test_what_was_not_used_for_longest_goes(folder, monkeypatch):
    size = len(cache.encode(KEY, MADE))
    keys = [f"{i:02x}" + KEY[2:] for i in range(6)]
    for i, key in enumerate(keys[:5]):
        cache.put(key, MADE)
        os.utime(folder / f"{key}.kernel", (0, time.time() - 10000 + i))
    assert cache.get(keys[0]) == MADE  # which makes it the one that was used last
    monkeypatch.setenv("SCALEC_CACHE_LIMIT", str(4 * size))
    assert cache.put(keys[5], MADE)
    assert [cache.get(key) is not None for key in keys] == [True, False, False, False, True, True]
    monkeypatch.setenv("SCALEC_CACHE_LIMIT", "0")
    cache.put(keys[1], MADE)
    assert cache.usage() == (0, 0)


def test_files_of_writers_that_died_go(folder):
    cache.put(KEY, MADE)
    old, new = folder / f"{KEY}.kernel.1.tmp", folder / f"{KEY}.kernel.2.tmp"
    for path in (old, new):
        path.write_bytes(b"half of a kernel")
    os.utime(old, (0, time.time() - 4000))
    cache.put(OTHER, MADE)
    assert (old.exists(), new.exists()) == (False, True)


def _worker(folder: str, log: str, barrier, queue) -> None:
    os.environ["SCALEC_CACHE_DIR"] = folder

    def compile_it() -> Compiled:
        with open(log, "a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(0.2)
        return MADE

    barrier.wait()
    queue.put(cache.get_or_compile(KEY, compile_it) == MADE)


def test_of_several_processes_one_compiles(folder, tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, queue, log = context.Barrier(6), context.Queue(), tmp_path / "log"
    workers = [context.Process(target=_worker, args=(str(folder), str(log), barrier, queue)) for _ in range(6)]
    for worker in workers:
        worker.start()
    assert all(queue.get(timeout=30) for _ in workers)
    for worker in workers:
        worker.join()
    assert len(log.read_text().splitlines()) == 1


def test_a_compilation_that_fails_frees_the_lock():
    def fails() -> Compiled:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get_or_compile(KEY, fails)
    assert cache.get_or_compile(KEY, lambda: MADE) == MADE


def test_without_a_directory_that_can_be_written_kernels_are_compiled(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SCALEC_CACHE_DIR", str(tmp_path / "file" / "kernels"))
    with pytest.warns(RuntimeWarning, match="set SCALEC_CACHE_DIR to a directory that can be written"):
        assert cache.get_or_compile(KEY, lambda: MADE) == MADE
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        assert cache.get_or_compile(KEY, lambda: MADE) == MADE


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_file_in_place_of_the_directory(tmp_path, monkeypatch, mode):
    """/dev/null too, which others can write: nobody is told to change that."""
    path = tmp_path / "file"
    path.write_text("mine")
    path.chmod(mode)
    monkeypatch.setenv("SCALEC_CACHE_DIR", str(path))
    with pytest.warns(RuntimeWarning, match=f"{path} is no directory.*SCALEC_CACHE=0") as told:
        assert cache.get_or_compile(KEY, lambda: MADE) == MADE
    assert len(told) == 1
    assert path.read_text() == "mine"


def test_the_key(tmp_path, monkeypatch):
    def key(source: str = "C[m,n] = A[m,k] @ B[n,k]", target: str = "sm_90a", dims=(), schedule=()) -> str:
        return cache.key_of(source, target, dict(dims), dict(schedule))

    plain = key()
    assert len(plain) == 64
    assert key("\n  C[m,n]  = A[m,k] @ B[n,k]   # the product\n\n") == plain
    assert key(dims={"m": 1, "k": 2}) == key(dims={"k": 2, "m": 1})
    others = {
        key("C[m,n] = A[m,k] @ B[k,n]"),
        key("C[m,n] = A[m,k]\n@ B[n,k]"),
        key(target="sm_100a"),
        key(dims={"k": 2}),
        key(schedule={"stages": "5"}),
    }
    ptxas = tmp_path / "ptxas"
    ptxas.write_text("#!/bin/sh\n")
    monkeypatch.setenv("SCALEC_PTXAS", str(ptxas))
    others.add(key())
    ptxas.write_text("#!/bin/sh\nexit\n")
    others.add(key())
    assert len(others | {plain}) == 8


def test_the_fingerprint_follows_the_toolchain_and_our_files():
    own, distributions, _, python = cache.fingerprint()
    assert len(own) == 64
    assert any(d.startswith("llvmlite-") for d in distributions)
    assert python == list(sys.version_info[:2])


def test_a_hit_is_quick_and_imports_no_compiler(folder, tmp_path):
    key = subprocess.run(
        [sys.executable, "-c", _PUT], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    assert key.stdout == "put\n"
    got = subprocess.run([sys.executable, "-c", _GET], capture_output=True, text=True, check=False)
    assert got.returncode == 0, got.stderr
    milliseconds, heavy = got.stdout.split()
    assert heavy == "[]"
    assert float(milliseconds) < 50  # a millisecond or two on a quiet machine


_PUT = """
from fake import gemm_spec, machine_code
from scalec.runtime import cache
key = cache.key_of("C[m,n] = A[m,k]", "sm_90a", {"k": 7168}, {})
made = cache.Compiled(gemm_spec(), machine_code(gemm_spec(), b"x" * 60000), "y" * 100000)
print("put" if cache.put(key, made) else "failed")
"""
_GET = """
import sys, time
import scalec
scalec.compile
start = time.process_time()
kernel = scalec.compile("C[m,n] = A[m,k]", target="sm_90a", dims={"k": 7168})
took = time.process_time() - start
heavy = ("torch_mlir", "mlir", "llvmlite", "lark", "click", "rich", "filelock", "numpy", "torch", "scalec.compiler",
         "difflib", "secrets")
print(took * 1e3, str([m for m in heavy if m in sys.modules]).replace(" ", ""))
"""
