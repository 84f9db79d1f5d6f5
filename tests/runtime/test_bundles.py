"""Bundles: written, read and run, also where there is no compiler."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import scalec
from scalec.errors import ArgumentError, ScalecError
from scalec.runtime import bundle, dispatch
from scalec.runtime import cubin as cubins
from scalec.runtime.kernel import Kernel
from scalec.targets import get_target
from tests.runtime.fake import FakeDevice, code_of, gemm_spec, gemm_tensors, machine_code, simple_spec


def kernel(code: bytes = b"code", **dims: int) -> Kernel:
    return Kernel(gemm_spec(**dims), machine_code(gemm_spec(**dims), code))


def test_a_bundle_of_one_is_callable(tmp_path):
    files = bundle.write(tmp_path / "b", [kernel()])
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == sorted([".lock", *(p.name for p in files)])
    device = FakeDevice()
    loaded = bundle.load(tmp_path / "b", device)
    c = loaded(*gemm_tensors().values())
    assert c.shape == (256, 512)
    assert device.launches[0].function == ("C", kernel().cubin)
    assert (list(loaded), len(loaded), repr(loaded)) == (["C"], 1, "Bundle(C)")
    assert loaded["C"].kernels[0].spec == gemm_spec()


def test_the_specialisation_is_picked_by_the_sizes(tmp_path):
    made = [kernel(b"any"), kernel(b"k", k=1024), kernel(b"nk", n=512, k=1024)]
    bundle.write(tmp_path, made)
    device = FakeDevice()
    loaded = bundle.load(tmp_path, device)
    for sizes in ({}, {"n": 640}, {"k": 2048}):
        loaded["C"](**gemm_tensors(**sizes))
    assert [code_of(x.function[1]) for x in device.launches] == [b"nk", b"k", b"any"]


def test_no_specialisation_fits(tmp_path):
    bundle.write(tmp_path, [kernel(b"1", k=1024), kernel(b"2", n=512, k=2048)])
    with pytest.raises(ArgumentError) as caught:
        bundle.load(tmp_path, FakeDevice())(**gemm_tensors(k=512))
    assert str(caught.value) == (
        "no kernel of C is compiled for these shapes\n"
        "  got: A [256, 512], B [512, 512], A_scale [256, 4], B_scale [4, 4]\n"
        "  expected: one of: n = 512, k = 2048 (sm_90a); k = 1024 (sm_90a)\n"
        "  fix: compile with a range that has these sizes, or leave sizes open; in a bundle under the same name"
    )


def test_the_target_is_picked_by_the_gpu(tmp_path, monkeypatch):
    row = replace(get_target("sm_90a"), name="sm_100a", capability=(10, 0))
    monkeypatch.setitem(dispatch.TARGETS, "sm_100a", row)
    bundle.write(
        tmp_path,
        [kernel(b"90"), Kernel(replace(gemm_spec(), target="sm_100a"), machine_code(gemm_spec(), b"100", 100))],
    )
    for capability, cubin in ((9, 0), b"90"), ((10, 0), b"100"):
        device = FakeDevice(capability=capability)
        bundle.load(tmp_path, device)(**gemm_tensors())
        assert code_of(device.launches[0].function[1]) == cubin


def test_several_programs(tmp_path):
    bundle.write(tmp_path, {"gemm": kernel(), "scaled": Kernel(simple_spec(), machine_code(simple_spec()))})
    loaded = bundle.load(tmp_path)
    assert list(loaded) == ["gemm", "scaled"]
    with pytest.raises(ArgumentError, match="the bundle has 2 programs"):
        loaded()
    with pytest.raises(KeyError, match="no kernel 'C' in the bundle\n  expected: gemm, scaled"):
        loaded["C"]
    bundle.write(tmp_path / "unnamed", [kernel(), Kernel(simple_spec(), machine_code(simple_spec()))])
    assert list(bundle.load(tmp_path / "unnamed")) == ["C", "C_2"]


def test_kernels_are_added_and_replaced(tmp_path):
    bundle.write(tmp_path, [kernel(b"old", k=1024)])
    bundle.write(tmp_path, [kernel(b"other", k=2048)])
    bundle.write(tmp_path, [kernel(b"new", k=1024)])
    found = bundle.load(tmp_path)["C"].kernels
    assert sorted(code_of(k.cubin) for k in found) == [b"new", b"other"]
    assert len(list(tmp_path.glob("*.cubin"))) == 2


def test_what_is_no_bundle_is_refused(tmp_path):
    with pytest.raises(ScalecError, match="no bundle in"):
        scalec.load(tmp_path)
    with pytest.raises(ScalecError, match="a bundle of no kernels"):
        bundle.write(tmp_path, [])
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(ScalecError, match="is not a bundle's manifest"):
        scalec.load(tmp_path)
    (tmp_path / "manifest.json").write_text('{"version": 7, "kernels": []}')
    with pytest.raises(ScalecError, match="is a bundle of version 7"):
        scalec.load(tmp_path)


@pytest.mark.parametrize("directory", [5, None, [], b"b", "a\0b", "loop", "/dev/null"])
def test_what_is_no_folder_is_refused(tmp_path, monkeypatch, directory):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ScalecError):
        scalec.load(directory)


def test_damage_is_found(tmp_path):
    bundle.write(tmp_path, [kernel()])
    (cubin,) = tmp_path.glob("*.cubin")
    cubin.write_bytes(b"cubim")
    with pytest.raises(ScalecError, match="is damaged"):
        scalec.load(tmp_path)
    cubin.unlink()
    with pytest.raises(ScalecError, match="cannot be read"):
        scalec.load(tmp_path)
    cubin.write_bytes(kernel().cubin)
    assert scalec.load(tmp_path)
    text = (tmp_path / "manifest.json").read_text()
    assert '"threads": 384' in text
    (tmp_path / "manifest.json").write_text(text.replace('"threads": 384', '"threads": 128'))
    with pytest.raises(ScalecError, match=r"kernels\[0\]: a kernel's row that is damaged"):
        scalec.load(tmp_path)


def forge(folder: Path, **changes: object) -> None:
    """Changes the first row of a manifest, and seals it as its writer would have: an attacker can."""
    manifest = json.loads((folder / "manifest.json").read_text())
    row = manifest["kernels"][0]
    row.update(changes)
    row["seal"] = bundle._seal(row["name"], row["sha256"], row["spec"])
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "file", ["../v/victim.cubin", "/ABSOLUTE", "sub/x.cubin", "..", "", "manifest.json", "a\0.cubin"]
)
def test_a_manifest_names_no_file_elsewhere(tmp_path, file):
    """`compile --bundle` removed what a replaced kernel's row named, and `load` read it."""
    victim = tmp_path / "v" / "victim.cubin"
    victim.parent.mkdir()
    victim.write_bytes(kernel().cubin)
    bundle.write(tmp_path / "b", [kernel()])
    forge(tmp_path / "b", file=file.replace("/ABSOLUTE", str(victim)))
    for touch in (lambda: bundle.load(tmp_path / "b"), lambda: bundle.write(tmp_path / "b", [kernel(b"new")])):
        with pytest.raises(ScalecError, match=r"expected the plain name of a \.cubin within the bundle"):
            touch()
    assert victim.read_bytes() == kernel().cubin


def test_links_lead_out_of_no_bundle(tmp_path):
    files = bundle.write(tmp_path / "b", [kernel()])
    for path in files:
        kept = path.read_bytes()
        (tmp_path / "elsewhere").write_bytes(kept)
        path.unlink()
        path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ScalecError, match="leads out of the bundle"):
            bundle.load(tmp_path / "b")
        path.unlink()
        path.write_bytes(kept)
    (tmp_path / "b" / "data").mkdir()
    os.replace(files[0], tmp_path / "b" / "data" / "x")
    files[0].symlink_to(Path("data", "x"))  # as mounted volumes have it
    (tmp_path / "link").symlink_to(tmp_path / "b")
    assert list(bundle.load(tmp_path / "link")) == ["C"]


@pytest.mark.parametrize("which", [0, 1], ids=["cubin", "manifest"])
@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "huge"])
def test_what_is_no_file_is_refused(tmp_path, monkeypatch, which, kind):
    """A FIFO was waited for until somebody wrote it."""
    path = bundle.write(tmp_path, [kernel()])[which]
    if kind == "huge":
        with path.open("ab") as file:
            file.truncate(1 << 40)
    else:
        path.unlink()
        make = {"folder": path.mkdir, "fifo": lambda: os.mkfifo(path), "device": lambda: path.symlink_to("/dev/zero")}
        make[kind]()
        if kind == "device":
            monkeypatch.setattr(bundle, "_within", lambda folder, name: str(folder / name))
    with pytest.raises(ScalecError, match="cannot be read"):
        bundle.load(tmp_path)


def test_a_lock_that_is_a_link_is_refused(tmp_path):
    """Versions of filelock empty the file that it leads to."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / ".lock").symlink_to(victim)
    with pytest.raises(OSError, match="not a regular file"):
        bundle.write(tmp_path / "b", [kernel()])
    assert victim.read_text() == "precious"


def test_nothing_is_written_through_a_link(tmp_path):
    """A manifest's own name may be a link; what is written then takes its place."""
    bundle.write(tmp_path / "b", [kernel()])
    os.replace(tmp_path / "b" / "manifest.json", tmp_path / "b" / "data")
    (tmp_path / "b" / "manifest.json").symlink_to("data")
    before = (tmp_path / "b" / "data").read_bytes()
    bundle.write(tmp_path / "b", [kernel(b"k", k=1024)])
    assert (tmp_path / "b" / "data").read_bytes() == before
    assert len(bundle.load(tmp_path / "b")["C"].kernels) == 2


def far_sections() -> bytes:
    """Machine code whose table of sections is said to lie beyond any file."""
    code = bytearray(machine_code(gemm_spec()))
    struct.pack_into("<Q", code, 40, 1 << 63)
    return bytes(code)


@pytest.mark.parametrize(
    ("cubin", "message"),
    [
        (b"\x7fELF and no more", "a cubin that is damaged"),
        (machine_code(gemm_spec())[:200], "a cubin that is damaged"),
        (far_sections(), "a cubin that is damaged"),
        (b"#!/bin/sh" + bytes(100), "no cubin: not an ELF file of CUDA"),
        (machine_code(gemm_spec(), target=100), "machine code for sm_100, expected sm_90a"),
        (machine_code(gemm_spec(), abi=7, flags=0x500D50), "machine code for sm_80, expected sm_90a"),
        (machine_code(replace(gemm_spec(), entry="D")), "machine code of 'D', expected an entry point 'C'"),
        (machine_code(replace(gemm_spec(), arguments=gemm_spec().arguments[1:])), "parameters of .* bytes, expected"),
        (
            machine_code(replace(gemm_spec(), launch=replace(gemm_spec().launch, threads=128))),
            "machine code for 128 threads, expected 384",
        ),
    ],
)
def test_a_spec_is_held_against_its_machine_code(tmp_path, cubin, message):
    with pytest.raises(ScalecError, match=message):
        bundle.write(tmp_path / "new", [Kernel(gemm_spec(), cubin)])
    (path, _) = bundle.write(tmp_path, [kernel()])
    path.write_bytes(cubin)
    forge(tmp_path, sha256=hashlib.sha256(cubin).hexdigest())
    with pytest.raises(ScalecError, match=f"(?s)is not what the manifest says.*{message}"):
        bundle.load(tmp_path)


@pytest.mark.parametrize(("abi", "flags"), [(7, 0x5A0D5A), (8, 0x6005A04), (9, 0)], ids=["12.9", "13.0", "unknown"])
def test_the_architecture_is_where_each_ptxas_writes_it(abi, flags):
    cubins.check(gemm_spec(), machine_code(gemm_spec(), abi=abi, flags=flags))


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_103a", "sm_120a"])
def test_what_ptxas_notes_is_what_is_read(target):
    """Were a ptxas to note parameters or threads elsewhere, nothing would be compared: here they are."""
    made = scalec.compile("C[m,n] = A[m,k]:e4m3@B[n,k]:e4m3", target, {"n": 512, "k": 512}, cache=False)
    cubins.check(made.spec, made.cubin)
    launch, arguments = made.spec.launch, made.spec.arguments
    for wrong in (
        replace(made.spec, arguments=arguments[1:]),
        replace(made.spec, launch=replace(launch, threads=launch.threads - 32)),
    ):
        with pytest.raises(ScalecError, match="machine code"):
            cubins.check(wrong, made.cubin)


def _writer(folder: str, k: int, barrier) -> None:
    barrier.wait()
    for step in range(5):
        bundle.write(folder, [kernel(b"%d" % step, k=k)])
        assert any(kernel.spec.dims["k"] == k for kernel in bundle.load(folder)["C"].kernels)


def test_who_reads_while_another_writes_reads_again(tmp_path, monkeypatch):
    bundle.write(tmp_path, [kernel(b"old")])
    rows = bundle._rows

    def then_replaced(folder, text):
        found = rows(folder, text)
        monkeypatch.setattr(bundle, "_rows", rows)
        bundle.write(tmp_path, [kernel(b"new")])
        return found

    monkeypatch.setattr(bundle, "_rows", then_replaced)
    assert code_of(bundle.load(tmp_path)["C"].kernels[0].cubin) == b"new"


def test_of_several_writers_none_is_lost(tmp_path):
    """Six processes left three or four of six kernels; and who read meanwhile, missed what one had replaced."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(6)
    writers = [context.Process(target=_writer, args=(str(tmp_path), 128 * (i + 1), barrier)) for i in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 6
    found = bundle.load(tmp_path)["C"].kernels
    assert sorted(k.spec.dims["k"] for k in found) == [128 * (i + 1) for i in range(6)]
    assert {code_of(k.cubin) for k in found} == {b"4"}
    assert len(list(tmp_path.iterdir())) == 6 + len(["manifest.json", ".lock"])


ALONE = """
import sys
FORBIDDEN = {"torch_mlir", "mlir", "llvmlite", "lark", "click", "rich", "platformdirs", "filelock"}
FORBIDDEN |= {"ml_dtypes", "torch"}
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FORBIDDEN:
            raise ImportError(f"{name} is forbidden here")
sys.meta_path.insert(0, Blocker())
import scalec
kernels = scalec.load(sys.argv[1])
from fake import FakeDevice, gemm_tensors
kernel = kernels["C"].kernels[0]
kernel.fixed = FakeDevice()
c = kernels(**gemm_tensors())
print(c.shape, c.numpy().dtype, len(kernel.fixed.launches))
"""


def test_it_runs_without_the_compiler(tmp_path):
    bundle.write(tmp_path, [kernel()])
    done = subprocess.run(
        [sys.executable, "-c", ALONE, tmp_path], capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    )
    assert (done.stderr, done.stdout) == ("", "(256, 512) uint16 1\n")
