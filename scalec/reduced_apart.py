"""The launches of programs without a contraction that no one kernel computes (scalec.frontend.cut_reductions)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from scalec.errors import ScalecError, SourceError, UnsupportedError
from scalec.sizes import Size, of_later


class Apart(NamedTuple):
    """The programs of all launches, and what each but the last leaves to later ones."""

    texts: tuple[str, ...]
    between: tuple[str, ...]


def reduced_apart(source: str, target: str, dims: Mapping[str, Size]) -> Apart | None:
    """The launches of a program without a contraction that no kernel computes, of which launches before find what is
    reduced: the largest magnitudes of blocks, sums of several indices, statistics of rows; None where it takes one, or
    where that does not help, as the refusal is to be of what was written."""
    from scalec.frontend.cut_reductions import CUTS, said

    text, texts, between = said(source), list[str](), list[str]()
    if all(cut(text) is None for cut in CUTS) or not _is_refused(source, target, dims, (UnsupportedError,)):
        return None
    for cut in CUTS:
        while (not texts or _is_refused(text, target, dims)) and (parts := cut(text)) is not None:
            before = reduced_apart(parts.first, target, dims)
            if before is None and _is_refused(parts.first, target, dims):
                return None
            more = (*before.between, parts.between) if before is not None else (parts.between,)
            for name, made in zip(more, before.texts if before is not None else (parts.first,), strict=True):
                if name not in between:
                    between.append(name)
                    texts.append(made)
                elif texts[between.index(name)] != made:  # two that are called the same
                    return None
            text = parts.second
    return None if not texts or _is_refused(text, target, dims) else Apart((*texts, text), tuple(between))


def _is_refused(
    text: str,
    target: str,
    dims: Mapping[str, Size],
    errors: tuple[type[ScalecError], ...] = (UnsupportedError, SourceError),
) -> bool:
    """Whether no kernel of its own computes a program without a contraction."""
    from scalec import compiler

    try:
        compiler.compile_source(text, target, of_later(text, dims), until="tile")
    except errors:
        return True
    return False
