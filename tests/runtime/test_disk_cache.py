"""The disk cache: one compilation among processes, whole entries only, and a hit that imports nothing heavy."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from scalec.runtime import cache
from scalec.runtime.cache import Compiled
from tests.runtime.fake import gemm_spec

KEY = "ab" + "0" * 62
MADE = Compiled(gemm_spec(), b"\x7fELF" + bytes(range(256)) * 40, "// PTX of C\n.visible .entry C() { ret; }\n")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SCALEC_CACHE_DIR", str(tmp_path / "kernels"))
    cache._warned.clear()
    return tmp_path / "kernels"


def test_what_is_put_is_got(folder):
    assert cache.get(KEY) is None
    assert cache.put(KEY, MADE)
    assert cache.get(KEY) == MADE
    assert [p.name for p in folder.iterdir()] == [KEY + ".kernel"]


def test_entries_size_and_clear(folder):
    assert (cache.entries(), cache.size(), cache.clear()) == ([], 0, 0)
    cache.put(KEY, MADE)
    cache.put("cd" + KEY[2:], MADE._replace(spec=gemm_spec(k=7168)))
    newest, _ = cache.entries()
    assert (newest.key[:2], newest.target, newest.dims, newest.source) == (
        "cd",
        "sm_90a",
        {"k": 7168},
        MADE.spec.source,
    )
    assert newest.size == (folder / (newest.key + ".kernel")).stat().st_size
    assert abs(newest.written - time.time()) < 60
    assert cache.size() == sum(p.stat().st_size for p in folder.iterdir())
    assert (cache.clear(), cache.entries(), cache.size()) == (2, [], 0)


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "other", "folder"])
def test_a_damaged_entry_is_compiled_again_and_replaced(folder, damage):
    cache.put(KEY, MADE)
    path = folder / (KEY + ".kernel")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    if damage == "folder":
        path.mkdir()
    else:
        path.write_bytes({"bit": bytes(data), "cut": bytes(data[:-5]), "empty": b"", "other": b"not ours"}[damage])
    assert cache.get(KEY) is None
    assert cache.entries() == []
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
    got = subprocess.run([sys.executable, "-c", _GET], capture_output=True, text=True, check=True)
    milliseconds, heavy = got.stdout.split()
    assert heavy == "[]"
    assert float(milliseconds) < 50  # a millisecond or two on a quiet machine


_PUT = """
from fake import gemm_spec
from scalec.runtime import cache
key = cache.key_of("C[m,n] = A[m,k]", "sm_90a", {"k": 7168}, {})
print("put" if cache.put(key, cache.Compiled(gemm_spec(), b"x" * 60000, "y" * 100000)) else "failed")
"""
_GET = """
import sys, time
import scalec
scalec.compile
start = time.process_time()
kernel = scalec.compile("C[m,n] = A[m,k]", target="sm_90a", dims={"k": 7168})
took = time.process_time() - start
heavy = ("torch_mlir", "mlir", "llvmlite", "lark", "click", "rich", "filelock", "numpy", "torch", "scalec.compiler")
print(took * 1e3, str([m for m in heavy if m in sys.modules]).replace(" ", ""))
"""
