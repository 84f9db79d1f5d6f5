"""Damaged files: manifests, machine code, cache entries, notes, tuning databases, journals, kernel specs.

A seed damages one file in one way or several, and reads it as scalec does. What may come of it: an error of
scalec.errors, or (cache, journal) nothing, or what was written. Never another exception, a file outside touched, or a
kernel that is not the one that was written.

    from tests.fuzz.files import check_file_seed
    check_file_seed(7)
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scalec import schema
from scalec.abi import Argument, KernelSpec, TensorSpec
from scalec.bench import provenance
from scalec.errors import ScalecError
from scalec.measured import database
from scalec.measured.database import Entry
from scalec.runtime import bundle, cache
from scalec.runtime.kernel import Kernel
from scalec.runtime.sequence import Sequence
from scalec.sizes import Range
from scalec.tuning.journal import Found, Journal
from tests.runtime.fake import FakeDevice, M, N, gemm_spec, gemm_tensors, machine_code, simple_spec

# ------------------------------------------------------------------------------------------------------------- damages

TEXTS = (
    "NaN", "-Infinity", "1e999", "-1", "0", "1", "3", "2147483648", "9" * 400, "9" * 5000, "-" + "9" * 400, "1.5",
    "1e5", "true", "null", '""', '"x"', '"../outside/victim.cubin"', '"/etc/passwd"', '"."', '"a/b.cubin"', "'",
    '"\\u0000"', '"\\ud800"', '"sm_100a"', '"m"', "[]", "{}", "[[]]", "[" * 90000, '{"a":' * 90000, "[1, 2, 3]",
    '{"version": 1}', '{"a": 1, "a": 2}', '"%s"' % ("x" * 70000),
)  # fmt: skip
"""What takes the place of a value, as JSON has it, or as nothing has it."""

HOLE = "the-hole-of-tests-fuzz"


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, entry in inner:
        yield (*path, step)
        yield from _places(entry, (*path, step))


def damage_json(rng: random.Random, text: str) -> str:
    """A JSON document with a value that is another, gone, there twice, or under another name."""
    document = json.loads(text)
    places = list(_places(document))
    if not places:
        return rng.choice(TEXTS)
    path = rng.choice(places)
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    kind = rng.randrange(8)
    if kind == 0:
        del inner[path[-1]]
    elif kind == 1:
        inner[path[-1]] = [inner[path[-1]]]
    elif kind == 2 and isinstance(inner, dict):
        inner["colour"] = inner.pop(path[-1]) if rng.random() < 0.5 else 1
    elif kind == 3 and isinstance(inner, list):
        inner.append(inner[path[-1]])
    elif kind == 4:  # a value of the right type from elsewhere in the document
        other = document
        for step in rng.choice([*_places(document)]):
            other = other[step]
        inner[path[-1]] = json.loads(json.dumps(other))
    elif kind == 5 and isinstance(inner[path[-1]], int):
        inner[path[-1]] = inner[path[-1]] * rng.choice([-1, 0, 2, 1 << 33]) + rng.choice([-1, 0, 1])
    elif kind == 6 and isinstance(inner, dict):
        twice = json.dumps(inner[path[-1]])
        inner[path[-1]] = HOLE
        return json.dumps(document).replace(f'"{HOLE}"', f'{twice}, "{path[-1]}": {twice}')
    else:
        inner[path[-1]] = HOLE
        return json.dumps(document).replace(f'"{HOLE}"', rng.choice(TEXTS))
    return json.dumps(document)


def damage_bytes(rng: random.Random, data: bytes) -> bytes:
    """Bytes with bits turned, cut, doubled, taken out or put in."""
    made, at = bytearray(data), rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.choice([1, 2, 8, 64, 1000]))
    kind = rng.randrange(6)
    if kind == 0:
        for _ in range(rng.choice([1, 1, 2, 20])):
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del made[at:]
    elif kind == 2:
        made[at:at] = made[at:end]
    elif kind == 3:
        del made[at:end]
    elif kind == 4:
        made[at:end] = rng.randbytes(end - at)
    else:
        made[at:at] = rng.choice([b"\0", b"\xff\xfe", b"\r\n", b"{", b"]", b"\n{}\n", rng.randbytes(9)])
    return bytes(made)


def replaced(rng: random.Random, path: Path, *, links: bool = True) -> None:
    """Puts what is no file in a file's place; or a link to one outside, which is no user's own."""
    path.unlink(missing_ok=True)
    kind = rng.choice([0, 1, 2, 3, 4, 5] if links else [0, 1, 2, 4, 5])
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        os.mkfifo(path)
    elif kind == 2:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    elif kind < 5:
        path.symlink_to(("../outside/victim.cubin", "/dev/zero")[kind - 3])


def damaged(rng: random.Random, path: Path, *, json_lines: bool = False, links: bool = True) -> None:
    """Damages a file of JSON, or a line of it, or of whatever."""
    how = rng.random()
    if how < 0.1:
        replaced(rng, path, links=links)
    elif how < 0.4 or path.suffix == ".cubin":
        path.write_bytes(damage_bytes(rng, path.read_bytes()))
    elif json_lines:
        lines = path.read_text().splitlines()
        at = rng.randrange(len(lines))
        lines[at] = damage_json(rng, lines[at])
        path.write_text("\n".join(lines) + rng.choice(["\n", ""]))
    else:
        path.write_text(damage_json(rng, path.read_text()))


# -------------------------------------------------------------------------------------------------------------- kinds

SPECS = (gemm_spec(), gemm_spec(n=512, k=1024), simple_spec())
KERNELS = [Kernel(spec, machine_code(spec, b"%d" % i)) for i, spec in enumerate(SPECS)]
SECOND = simple_spec(
    source="D[m,n] = C[m,n]:f32",
    entry="D",
    operands=(TensorSpec("C", "f32", (M, N), align=4),),
    results=(TensorSpec("D", "bf16", (M, N), align=2),),
    arguments=(Argument("pointer", "C"), Argument("pointer", "D")),
)
LAUNCHES = [Kernel(simple_spec(), KERNELS[2].cubin), Kernel(SECOND, machine_code(SECOND, b"D"))]
SEQUENCE = Sequence("C[m,n]:f32 = ...; D[m,n] = C[m,n]", LAUNCHES, [t.name for t in SPECS[2].operands], ["D"])
WRITTEN = {(k.spec.to_json(), k.cubin) for k in (*KERNELS, *LAUNCHES)}
KEY, OTHER = "ab" + "0" * 62, "cd" + "0" * 62
MADE = cache.Compiled(SPECS[0], KERNELS[0].cubin, "// PTX", "7 us")
PARTS = (Range(1, 64), Range(65, 128))
ENTRY = Entry("sm_90a", "bf16[m,n] = ...", 7168, 2048, Range(1, 16), {}, {"tile": "64x16x128"}, {"us": 7.5, "gpu": "H"})
FOUND = Found(Range(1, 16), 16, "tile=64", {"tile": "64"}, 7.0, 8.0, 5.0, 1 << 40, {"default": 8.0}, ("torch",))


def _called(program: Any) -> None:
    """Calls whatever was loaded, on a device that records: what an attacker's spec makes of it is an error of ours."""
    with contextlib.suppress(ScalecError):
        program(*gemm_tensors(m=256, n=512, k=1024).values())


def check_spec(rng: random.Random, root: Path) -> None:
    text = rng.choice(SPECS).to_json()
    text = damage_json(rng, text) if rng.random() < 0.8 else damage_bytes(rng, text.encode()).decode(errors="replace")
    with contextlib.suppress(ScalecError):
        spec = KernelSpec.from_json(text)
        assert KernelSpec.from_json(spec.to_json()) == spec, "a spec that does not come back"
        _called(Kernel(spec, b"", device=FakeDevice()))


def check_bundle(rng: random.Random, root: Path) -> None:
    folder = root / "bundle"
    bundle.write(folder, [*KERNELS, SEQUENCE])
    provenance.write(folder)
    sealed, manifest = rng.random() < 0.5, folder / bundle.MANIFEST
    if sealed:  # as an attacker can: the row's own digest is right
        document = json.loads(manifest.read_text())
        row = rng.choice([*document["kernels"], *document["sequences"]])
        with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError, ScalecError):
            row.update(json.loads(damage_json(rng, json.dumps(row))))
            chain = None if "sha256" in row else schema.read(bundle.Chain, row)
            row["seal"] = bundle._seal(row["name"], row["sha256"], row["spec"]) if chain is None else chain.sealed()
        with contextlib.suppress(UnicodeEncodeError):
            manifest.write_text(json.dumps(document))
    else:
        damaged(rng, rng.choice(sorted(p for p in folder.iterdir() if p.suffix)))
    with contextlib.suppress(ScalecError):
        for program in bundle.load(folder, FakeDevice()).values():
            for kernel in program.kernels:
                assert sealed or (kernel.spec.to_json(), kernel.cubin) in WRITTEN, "another kernel than was written"
            assert sealed or not isinstance(program, Sequence) or program.spec == SEQUENCE.spec, "another sequence"
            _called(program)
    with contextlib.suppress(ScalecError):
        provenance.read(folder)
    with contextlib.suppress(ScalecError, OSError):
        bundle.write(folder, [rng.choice(KERNELS)], gone=lambda spec: rng.random() < 0.5)


def _head(rng: random.Random, data: bytes) -> bytes:
    """A file of the cache whose first line is damaged, and whose seal is right."""
    head, newline, body = cache._payload(data).partition(b"\n")
    return cache._sealed(damage_json(rng, head.decode()).encode() + newline + body)


def _in_cache(rng: random.Random, path: Path) -> bool:
    """Damages a file of the cache; whether its seal is right."""
    how = rng.random()
    if how < 0.2:
        replaced(rng, path)
    elif how < 0.6:
        path.write_bytes(damage_bytes(rng, path.read_bytes()))
    else:
        path.write_bytes(_head(rng, path.read_bytes()))
        return True
    return False


def check_cache(rng: random.Random, root: Path) -> None:
    cache.put(KEY, MADE)
    sealed = _in_cache(rng, Path(cache._path(KEY)))
    found = cache.get(KEY)
    assert found is None or sealed or found == MADE, "another kernel than was put"
    cache.entries()
    cache.usage()
    again = cache.get_or_compile(KEY, lambda: MADE)
    assert again == (found or MADE), "not compiled again"
    cache.clear()


def check_note(rng: random.Random, root: Path) -> None:
    cache.remember(KEY, tuple[Range, ...], lambda: PARTS)
    sealed = _in_cache(rng, Path(cache.directory(), KEY + cache._NOTE))
    found = cache.remember(KEY, tuple[Range, ...], lambda: PARTS)
    assert found == PARTS or sealed, "another note than was written"
    assert all(type(part) is Range and type(part.low) is type(part.high) is int for part in found), "no ranges"


def check_database(rng: random.Random, root: Path) -> None:
    path = root / "tuning.json"
    database.write(path, [ENTRY])
    damaged(rng, path, links=False)
    with contextlib.suppress(ScalecError):
        for entry in database.read(path):
            str(entry.told + entry.text)
        database.find([database.read(path)], "sm_90a", ENTRY.program, (8, 7168, 2048), {})
    with contextlib.suppress(ScalecError, OSError):
        database.write(path, [ENTRY])
        assert ENTRY in database.read(path), "what was written is not there"


def check_journal(rng: random.Random, root: Path) -> None:
    path = root / "tuning.journal"
    first = Journal(path, ["job"], "what")
    first.refused(PARTS[0], "tile=1x1x1", "no such tile")
    first.slow(PARTS[0], "tile=2x2x2", 9.0, 7.0)
    first.finish(FOUND)
    damaged(rng, path, json_lines=True, links=False)
    with contextlib.suppress(ScalecError, OSError):
        again = Journal(path, ["job"], "what")
        for found in again.done.values():
            assert type(found) is Found, "what is no finding"
        again.out(PARTS[0])
        again.finish(FOUND)
        assert Journal(path, ["job"], "what").done[FOUND.m] == FOUND, "what was noted is not there"


KINDS: tuple[Callable[[random.Random, Path], None], ...] = (
    check_spec,
    check_bundle,
    check_cache,
    check_note,
    check_database,
    check_journal,
)


def check_file_seed(seed: int) -> None:
    """Damages a file and reads it.

    Raises:
        AssertionError: what came of it is none of what may; its text says how to see it again.
    """
    rng, check = random.Random(seed), KINDS[seed % len(KINDS)]
    where = f"file seed {seed} ({check.__name__})"
    before = os.environ.get("SCALEC_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root, outside = Path(folder, "work"), Path(folder, "outside")
        root.mkdir()
        outside.mkdir()
        (outside / "victim.cubin").write_bytes(KERNELS[0].cubin)
        (root / "victim.txt").write_text("precious")
        held = _contents(outside, root)
        os.environ["SCALEC_CACHE_DIR"] = str(root / "cache")
        try:
            check(rng, root)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {str(error)[:300]}") from error
        finally:
            os.environ.pop("SCALEC_CACHE_DIR")
            if before is not None:
                os.environ["SCALEC_CACHE_DIR"] = before
        assert _contents(outside, root) == held, f"{where}: a file outside was touched"


def _contents(*folders: Path) -> list[tuple[str, int, bytes]]:
    """What no reader may touch: all of the first folder, of the second what is named victim."""
    outside, root = folders
    every = [*outside.rglob("*"), root / "victim.txt"]
    return [(str(path), path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(every)]
