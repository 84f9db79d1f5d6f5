"""What machine code says of itself, held against what a spec says of it.

A cubin is an ELF file (NVIDIA, "CUDA Binary Utilities": machine 190). Its flags name the architecture, its sections the
entry point. What ptxas notes of the entry lies in the section `.nv.info.<entry>`, as cuobjdump -elf
prints it: of each parameter the bytes (EIATTR_KPARAM_INFO), threads of a CTA (EIATTR_REQNTID), CTAs of a cluster
(EIATTR_CTA_PER_CLUSTER). Those are compared where they are there: NVIDIA does not promise them.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator

from scalec.abi import PARAMETERS, KernelSpec
from scalec.errors import FormatError

_HEADER = struct.Struct("<4s4xB7xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_CUDA = 190  # e_machine
_ARCHITECTURE = {7: 0, 8: 8}  # by EI_ABIVERSION, where e_flags have it: as ptxas 12.9 writes, and 13.0
_CODE, _INFO = ".text.", ".nv.info."
_WITH_BYTES = 4  # EIFMT_SVAL: so many bytes follow
_PARAMETER, _THREADS, _CLUSTER = 0x17, 0x10, 0x3D


def check(spec: KernelSpec, cubin: bytes) -> None:
    """Refuses machine code that is not what a spec describes.

    Raises:
        FormatError: no cubin, one for another architecture, without the entry point, or with other parameters.
    """
    architecture, sections = _read(cubin)
    wanted = int(re.sub(r"\D", "", spec.target))
    if architecture not in (wanted, None):
        raise FormatError(f"machine code for sm_{architecture}", wanted=spec.target)
    if _CODE + spec.entry not in sections:
        found = ", ".join(name.removeprefix(_CODE) for name in sections if name.startswith(_CODE))
        raise FormatError(f"machine code of {found[:100]!a}", wanted=f"an entry point {spec.entry!r}")
    sizes: dict[int, int] = {}
    notes = sections.get(_INFO + spec.entry)
    for attribute, value in _notes(_bytes(cubin, notes)) if notes else ():
        if attribute == _PARAMETER and len(value) == 12:
            _, number, _, packed = struct.unpack("<IHHI", value)
            sizes[number] = packed >> 18
        elif attribute in (_THREADS, _CLUSTER) and len(value) == 12:
            found, what = (
                math.prod(struct.unpack("<III", value)),
                ("threads", "CTAs of a cluster")[attribute == _CLUSTER],
            )
            expected = spec.launch.threads if attribute == _THREADS else spec.launch.cluster
            if found != expected:
                raise FormatError(f"machine code for {found} {what}", wanted=str(expected))
    expected = [PARAMETERS[a.kind] for a in spec.arguments]
    found = [sizes[number] for number in sorted(sizes)]
    if sizes and found != expected:
        raise FormatError(f"machine code with parameters of {found} bytes", wanted=str(expected))


_Section = tuple[int, ...]


def _read(cubin: bytes) -> tuple[int | None, dict[str, _Section]]:
    """The architecture (None where an unknown ABI may have it elsewhere), and the sections' headers by name."""
    try:
        magic, abi, _, machine, _, _, _, at, flags, _, _, _, size, count, names = _HEADER.unpack_from(cubin)
        if (magic, machine, size) != (b"\x7fELF", _CUDA, _SECTION.size):
            raise FormatError("no cubin: not an ELF file of CUDA")
        rows = [_SECTION.unpack_from(cubin, at + i * size) for i in range(count)]
        texts = _bytes(cubin, rows[names])
        named = {texts[row[0] : texts.index(b"\0", row[0])].decode(): row for row in rows}
    except FormatError:
        raise
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise FormatError(f"a cubin that is damaged: {error}") from None
    place = _ARCHITECTURE.get(abi)
    return None if place is None else flags >> place & 0xFF, named


def _bytes(cubin: bytes, section: _Section) -> bytes:
    _, _, _, _, at, size, *_ = section
    if at + size > len(cubin):
        raise FormatError(f"a cubin that is damaged: it ends within a section of {size} bytes")
    return cubin[at : at + size]


def _notes(section: bytes) -> Iterator[tuple[int, bytes]]:
    """Attributes of `.nv.info` that have bytes: format, number and 16 bits, which are how many bytes follow, or the
    value itself."""
    at = 0
    while at + 4 <= len(section):
        form, attribute, value = struct.unpack_from("<BBH", section, at)
        at += 4
        if form == _WITH_BYTES:
            yield attribute, section[at : at + value]
            at += value
