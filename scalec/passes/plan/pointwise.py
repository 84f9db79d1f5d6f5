"""How threads share out a program without a contraction: derived from its sizes and types, nothing is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod

from scalec.errors import UnsupportedError
from scalec.formats import PACKED_BITS, TRANSFORMED
from scalec.ir.tile_pointwise import LANES, MOST_BYTES, MOST_MASKED, turned_words
from scalec.ir.tile_row_stores import fits_rows, line_bytes
from scalec.passes.problem.pointwise import Blocks, Output, Pointwise

THREADS = 128
"""Of a CTA: four warps, of which an SM holds as many CTAs as their registers leave it. Not measured."""

MOST_THREADS, ROW_THREADS = 512, 256
"""Of a CTA that has whole rows in registers, or blocks of several rows, at most; and of one that walks rows. Not
measured."""

MOST_TOGETHER, UNKNOWN_TOGETHER = 8, 4
"""Terms of a sum whose loads are issued before the first is added: at most, and where their number is unknown. A thread
holds a vector of each. Not measured."""

WASTED = 8
"""Threads along a row may have nothing for one vector in so many. Not measured."""

SECTORS = 8
"""Threads along a row, at least, where the row has as many vectors: 128 bytes, a line of L2. Not measured."""

AT_ONCE, MOST_AT_ONCE = 4096, 8
"""Bytes that a CTA stores, at least, of what writes more than it reads, and places of a thread for it, at most. An SM
begins a CTA each 80 ns: 8192 x 8192 f32 of a row and a column took 81 us with 2048 bytes a CTA, 59.6 with 4096, 59.5
with 8192, 60.4 with 16384, wherever a thread's places are (a fill 60.1); 69 with 256 or 512 threads of one place. What
reads as much takes 1.00 to 1.01 of the time (H200, docs/notes/pointwise.md)."""

SINGLE = 4
"""Places of a thread of single columns, beside each other, of what reads as much as it writes: relu(X) + G of bf16 in
8192 rows of 7167 took 279 us, 94 so, 98 with four or eight below each other (H200, docs/notes/pointwise.md)."""

HELD, MOST_HELD = 32, 64
"""Elements that a thread holds of a tensor of a row that it keeps, of one of several half as many where the row has no
more than ROW_THREADS then; and at most, of all of these and of a block of several rows, where the row would have more
than MOST_THREADS else. Twice as many took 1.18 of the time (a softmax over 12288), half as many 1.05 to 1.24 (rows of
7168, H200, docs/notes/pointwise.md)."""

FEW = 8
"""Columns that a thread has side by side, at most, of which each has its own scale: a thread then has many rows of a
block, and few threads exchange what they found of each column. Not measured."""

WORDS_ACROSS = 4
"""Threads along a row, at most, where words of several rows lie side by side in what is read: others have these rows.
8192 x 7168 of GPTQ to bf16 take 40.3 us with 4, 40.5 with 8, 42.5 with 16, 48.5 with 128, a copy 37.2 (H200)."""

WIDEST = 32
"""Bytes that a thread has of a row in the widest type: more would be loads that are further apart. Not measured."""


SIDE, MOST_SIDE = 64, 128
"""Rows, and columns, of a tile that is turned; at most where blocks need it, where rows of the tile would end within a
SECTOR else (0.78 of the time for elements of 6 bits, H100), or where a row has scales, which leave together: 0.92 of
the time (turned mxfp8, H200, docs/notes/pointwise.md)."""

LONG_SIDE = 256
"""Rows of a tile whose rows begin anywhere, and are turned as they are read, of as many threads as one of MOST_SIDE:
each row of the result has parts of sectors at both ends, which are more writes for L2 (docs/notes/pointwise.md). Of 128
columns, as blocks of 128x128 need, sm_120a has no shared memory for it."""

MANY = 16
"""Tiles for each SM from which on those of results with scales in both orders have MOST_SIDE rows too, not columns
alone. Each row of a tile is a store of its scales, a few bytes, which costs L2 as much as one of a sector: 8192 x 7168
bf16 in mxfp8 took 100 us in tiles of 64 x 64, 96 in 64 x 128, which take 64 rows as long, and 94 in 128 x 128, which
take those 3.5 us for 3.1 (H100, docs/notes/pointwise.md)."""

SECTOR = 32
"""Bytes of memory that are written at once."""

LIMITS = {32: 56, 56: 96, 64: 128}
"""Registers of a thread that holds up to so many elements of tensors that rows do not share. With 56 an SM has five
rows of 7168: a softmax takes 0.97 of the time with 64, a norm quantised to mxfp8 0.98, over 12288 0.86 and 0.83 (H200,
docs/notes/pointwise.md). 56 elements take 0.95 of the time with 96 instead of 128, and 1.39 with 80 (H100)."""

TURNED = 64
"""Those of a thread of a turned tile."""

MORE, SPILLS = 16, 2
"""Registers that a thread has more where it spills, and how often until it has all that it needs: with 72, as with 64,
an SM has four rows of 7168."""


@dataclass(frozen=True)
class Spread:
    """How threads share out a result.

    Attributes:
        vector: adjacent columns of a row that a thread has in one place.
        rows, columns: of a CTA's tile; a tile has one index along each further dimension.
        together: terms of a sum that a thread loads before it adds the first.
        whole: whether every thread inside the result has a whole vector, as it divides the number of columns.
        threads: of a CTA.
        down, along: places that a thread has in a tile, along the rows and along the columns.
        looped: whether a tile is walked along the columns, as many at a time, until all of a row have been: it is known
            then what a whole row has.
        turns: whether some results have another index last than what they are computed of.
        folds: whether threads that have the same columns share out what these are reduced over, `down` of them.
        blocks: indices that a row, and a column, are of: those of one scale where scales are copied.
    """

    vector: int
    rows: int
    columns: int
    together: int
    whole: bool
    threads: int = THREADS
    down: int = 1
    along: int = 1
    looped: bool = False
    turns: bool = False
    folds: bool = False
    blocks: tuple[int, int] = (1, 1)

    @property
    def across(self) -> int:
        """Threads that share a row, those that follow one another: a power of two, or all of a CTA."""
        return self.columns // self.along // self.vector

    def turned(self, p: Pointwise) -> Spread:
        """How threads share out the same tile with rows and columns in each other's place: the same way; elements that
        are moved as matrices of 8 by 8, two of a lane, by four lanes of a column (`tile.take_turned`)."""
        m, along = p.rows[-1].size, self.rows // (4 * self.vector) if self.halves(p) else 1
        whole = bool(m) and not m % self.vector and p.apart is None
        return replace(self, rows=self.columns, columns=self.rows, whole=whole, down=self.down // along, along=along)

    def halves(self, p: Pointwise) -> bool:
        """Whether a tile that is turned is moved as elements of 16 bits: where what four lanes store are whole sectors.
        Of 6 bits they are one and a half: turned mxfp6 took 1.6 times as long (H200, docs/notes/pointwise.md)."""
        own = 4 * self.vector
        sectors = all(own * o.element.bits % (8 * SECTOR) == 0 for o in p.outputs if p.is_turned(o))
        return p.halves and sectors and self.vector in (8, 16) and not self.rows % own

    @property
    def step(self) -> tuple[int, int]:
        """Rows, and columns, from one of a thread's places to the next."""
        return self.threads // self.across, self.across * self.vector

    def order(self, p: Pointwise) -> str:
        """In which CTAs take tiles: "m", those beside each other first; or "n", those one below the other, which write
        side by side what is turned: 8192 x 7168 bf16 take 0.96 of the time, but 1.02 in 6 bits, where rows of tiles end
        within two sectors (H200). Of gathered rows, of which several results name one, these also read the same
        columns at a time, which L2 keeps: 262144 rows of 2048 e4m3, each of 32768 eight times, are requantised in 0.81
        of it (H100, docs/notes/pointwise.md)."""
        ends = all(self.rows * o.element.bits % (2 * 8 * SECTOR) == 0 for o in p.outputs)
        return "n" if all(map(p.is_turned, p.outputs)) and (ends or p.gates) else "m"

    def sharing(self, rows: int, columns: int) -> int:
        """The bits in which the numbers of the threads differ that share a block of so many rows and columns, all of a
        row for 0; of single columns (1), that have parts of the same ones."""
        every = 1 << (self.across - 1).bit_length()
        lanes = min(max(1, columns // self.vector), every) if columns else every
        return lanes - 1 | (min(rows, self.step[0]) - 1) * self.across

    def exchanged_bytes(self, p: Pointwise) -> int:
        """Of a CTA: what its warps exchange of blocks and rows, twice, by turns."""
        if self.folds:
            return 4 * self.threads * self.vector
        shared = [(x.rows, x.columns) for x in p.found]
        shared += [(1, 0)] * any(map(p.of_row, p.reductions))
        numbers = [self.vector if x[1] == 1 else 1 for x in shared if self.sharing(*x) >= LANES]
        return 8 * self.threads * max(numbers, default=0)

    def named_at(self, p: Pointwise) -> int:
        """The byte where it says which rows of a tile that is turned are there, behind what is exchanged and that tile,
        in f32 or 16 bits."""
        words = turned_words(self.rows, self.columns, self.vector)
        size = 2 * self.rows * self.columns if self.halves(p) else 4 * words
        return self.exchanged_bytes(p) + (size if self.turns else 0)

    def stores_rows(self, o: Output) -> bool:
        """Whether threads store rows of a result together where vectors do not (`tile.begin_row`)."""
        return not self.whole and fits_rows(o.element.bits, self.vector, self.across, self.along)

    def stored_at(self, p: Pointwise) -> int | None:
        """The byte from which rows of turned results are put together, behind all else; None where none are, where rows
        of the tile may be left out, where shared memory has no room, or where rows most likely begin at 16 bytes, and
        registers and shared memory for others cost time: turned bf16 took 1.18 of the time, mxfp6 1.08, mxfp8 and 1x128
        1.00 (H200, 2026-11-30)."""
        free = len(p.outputs) == 1 and p.outputs[0].element.bits == 8
        if not self.turns or p.holes or (p.apart is None and not free) or not self.stored_bytes(p):
            return None
        return self.named_at(p) if self.fits_stores(p) else None

    def fits_stores(self, p: Pointwise) -> bool:
        """Whether shared memory has room for these rows behind all else."""
        return self.named_at(p) + self.stored_bytes(p) <= p.target.shared_bytes

    def stored_bytes(self, p: Pointwise) -> int:
        """Of these rows."""
        other = self.turned(p)
        bits = [o.element.bits for o in p.outputs if p.is_turned(o) and other.stores_rows(o)]
        rows = [x * other.vector // 8 * other.across * other.along for x in bits]
        lines = [line_bytes(x, other.along) for x in rows]
        return max(lines, default=0) * other.rows

    def shared_bytes(self, p: Pointwise) -> int:
        """Of a CTA."""
        if self.stored_at(p) is not None:
            return self.named_at(p) + self.stored_bytes(p)
        return self.named_at(p) + (self.rows if self.turns and p.holes else 0)

    def registers(self, p: Pointwise, spilled: int = 0) -> int:
        """The most that a thread is to have, where the program has `spilled` so many times with less; 0 where ptxas may
        take what it likes. Of a tile that is turned a thread computes one place after another."""
        if self.folds or spilled == SPILLS:
            return 0
        if self.turns:
            return TURNED + spilled * MORE
        names, rows = {x.name: x for x in p.lookups}, {d.name for d in p.rows}
        reads = len({(x.name, x.coords) for x in p.every if p.along(x) and x.dims(names) & rows})
        held = self.down * self.along * self.vector * max(1, reads)
        return next((most + spilled * MORE for few, most in LIMITS.items() if held <= few), 0)

    @staticmethod
    def of(p: Pointwise) -> Spread:
        """Of scales that are copied each thread has a row's, as those of adjacent rows lie together in all layouts but
        `row`, where what a thread reads is whole sectors. Of others:
        vectors of 16 bytes of the narrowest type that is read or written along the columns, no more than 32 of the
        widest; or where the columns are known and no multiple, of the largest power of two that divides them.

        Raises:
            UnsupportedError: blocks of scales that no threads share out.
        """
        vector, n = _vector(p), p.columns.size
        transformed = [TRANSFORMED // vector for o in p.outputs if o.hadamard]
        if p.copies:
            ranged = any(d.dim == p.columns.name for d in p.domains)
            whole = bool(n) and not n % (vector * p.blocks[1]) and not ranged
            return Spread(vector, THREADS, vector, 1, whole, blocks=p.blocks)
        if p.folds is not None:
            return _folding(p, vector)
        if transformed and vector & (vector - 1):
            raise _refused(f"a transform of {TRANSFORMED} columns beside blocks of scales", "blocks of a power of two")
        if p.turned is not None:
            return _turning(p, vector)
        vectors = -(-(p.columns.largest or THREADS * vector) // vector)
        across, whole = _across(vectors), bool(n) and not n % vector
        if any(x.words for x in p.every):
            across = min(across, WORDS_ACROSS)
        if not p.meets:
            down, along = _places(p, vector)
            rows, columns = THREADS // across * down, across * vector * along
            return Spread(vector, rows, columns, _together(p), whole, down=down, along=along)
        blocks = [*p.found]
        widest = max((*transformed, *(x.columns // vector for x in blocks)), default=1) or 1
        high = max((x.rows for x in blocks), default=1)
        if p.spans:
            if high > 1:
                what = f"blocks of {high} rows, and what is found of a whole row,"
                raise _refused(what, "blocks of one row", "compute one of them in a program of its own")
            return _rows(p, vector, vectors, max(1, widest), whole)
        if high > 1:
            return _blocks(p, vector, widest, blocks, whole)
        across = max(min(across, THREADS), min(widest, ROW_THREADS))
        along = max(1, widest // across)
        if along * vector > MOST_HELD:
            raise _refused(f"blocks of {widest * vector} columns", "fewer")
        threads = max(THREADS, across)
        down, beside = (1, along) if blocks or transformed else _places(p, vector)
        rows, columns = threads // across * down, across * beside * vector
        return Spread(vector, rows, columns, _together(p), whole, threads, down, beside)

    def __str__(self) -> str:
        return f"rows={self.rows}, columns={self.columns}, vector={self.vector}, together={self.together}"


def _places(p: Pointwise, vector: int) -> tuple[int, int]:
    """How many places a thread has below each other, and beside each other: several, which share what rows have in
    common, where less is read of each point than written, and CTAs would write less than AT_ONCE; or where threads have
    single columns."""
    rows, names = {d.name for d in p.rows}, {x.name: x for x in p.lookups}
    read = {(x.name, x.coords): x for x in p.every if x.dims(names) > {p.columns.name}}
    apart = {key: [c.divisor for c in x.coords if c.dim == p.columns.name] for key, x in read.items()}
    each = [x.element.bits // max(apart[key], default=1) for key, x in read.items()]
    written = [o.element.bits for o in p.outputs if not p.is_row(o)]
    if p.reductions or p.skips or len(written) != 1:
        return 1, 1
    if sum(each) >= written[0]:
        return (1, SINGLE) if vector == 1 else (1, 1)
    count = min(MOST_AT_ONCE, max(1, 8 * AT_ONCE // (THREADS * vector * written[0])))
    return (count, 1) if rows and p.rows[-1].largest != 1 else (1, count)


def _refused(what: str, expected: str, fix: str = "quantise in smaller blocks") -> UnsupportedError:
    return UnsupportedError(
        f"{what} without a contraction have no kernel yet",
        expected=expected,
        fix=f"{fix}, or after the call",
    )


def _vector(p: Pointwise) -> int:
    """Columns that a thread has side by side: blocks have a power of two of vectors."""
    n = p.columns.size
    elements = [x.element for x in p.every if p.along(x)] + [o.element for o in p.outputs if not p.is_row(o)]
    bits = [x.bits for x in elements] or [8 * MOST_BYTES]
    widest = 1 << (8 * WIDEST // max(bits)).bit_length() - 1
    stored = 8 * MOST_BYTES // max((o.element.bits for o in p.outputs if not p.is_row(o)), default=1)
    if not (p.found or p.spans or p.turned) and not any(stored * x % (16 if x < 8 else 32) for x in bits):
        widest = min(widest, stored)
    vector = 1 if p.single else min(8 * MOST_BYTES // (min(bits) & -min(bits)), widest)
    if any(x.columns == 1 for x in p.found):
        vector = min(vector, FEW)
    blocks = [o.scale.columns for o in p.outputs if o.scale is not None and o.scale.columns > 1]
    if not p.single and p.most:
        vector = min(vector, p.most)
    least = max((x.unit for x in elements if not p.single or x.bits != PACKED_BITS), default=1)
    odd = {x // (x & -x) for x in blocks} or {1}
    if len(odd) > 1 or (p.single and (odd != {1} or least > 1)):
        sizes = " and ".join(str(x) for x in blocks)
        raise _refused(f"blocks of {sizes} columns that threads share out together", "blocks that divide one another")
    (factor,) = odd
    vector = min([vector, *(x & -x for x in blocks)])
    most = MOST_MASKED if p.windowed else MOST_HELD
    while factor > 1 and vector > least and factor * vector > most:
        vector //= 2
    if factor * vector > most:
        raise _refused(f"blocks of {blocks[0]} columns", "a power of two times an odd number up to 32")
    while n and n % (factor * vector) and vector > least and p.turned is None:
        vector //= 2
    read = {level.columns for x in p.every for level in x.levels if level.columns}
    while vector > least and any(size % (factor * vector) and factor * vector % size for size in read):
        vector //= 2
    if vector % least or any(size % (factor * vector) and factor * vector % size for size in read):
        sizes = " and ".join(map(str, sorted({*read, *blocks})))
        raise _refused(f"blocks of {sizes} columns that threads share out together", "blocks that divide one another")
    if p.most > 1 and p.most % (factor * vector):
        raise _refused(f"blocks of {blocks[0]} columns beside what each {p.most} have one of", "a power of two")
    return factor * vector


def _rows(p: Pointwise, vector: int, vectors: int, widest: int, whole: bool) -> Spread:
    """A CTA has whole rows: in registers where they are known and fit, else it walks them, more than once."""
    reads = len({(x.name, x.coords) for x in p.every if p.along(x)})
    each = max(1, HELD // vector // (1 if reads <= 1 else 2))
    across = _warps(vectors, each)
    if across > ROW_THREADS and 2 * each * vector <= HELD:
        across = _warps(vectors, 2 * each)
    if across > MOST_THREADS and 2 * each * vector * min(reads, 2) <= MOST_HELD:
        across = _warps(vectors, 2 * each)
    if widest > LANES or across <= THREADS:
        across = widest
        while across * each < vectors:
            across *= 2
    if p.columns.size and across <= MOST_THREADS:
        threads, along = max(THREADS, across), max(1, -(-vectors // across))
        return Spread(vector, threads // across, across * along * vector, _together(p), whole, threads, along=along)
    if widest > ROW_THREADS:
        raise _refused(f"blocks of {widest * vector} columns in rows of many", "fewer")
    return Spread(vector, 1, ROW_THREADS * vector, _together(p), whole, ROW_THREADS, looped=True)


def _warps(vectors: int, each: int) -> int:
    """Threads, in whole warps, that have so many vectors each."""
    return LANES * -(-vectors // (LANES * each))


def _blocks(p: Pointwise, vector: int, widest: int, blocks: list[Blocks], whole: bool) -> Spread:
    """A CTA has whole blocks of several rows. Rows of threads are a power of two that divides all of them."""
    high, common = max(x.rows for x in blocks), gcd(*(x.rows for x in blocks if x.rows > 1))
    across, most, single = widest, common & -common, any(x.columns == 1 for x in blocks)
    while across * most < 32 or (single and across < SECTORS):
        across *= 2  # a warp at least; of single columns whole lines
    rows = most
    while rows > 1 and (
        across * rows > MOST_THREADS or (single and across * rows > THREADS and 2 * high * vector <= MOST_HELD * rows)
    ):
        rows //= 2
    while across * rows < THREADS and rows % high == 0:
        rows *= 2
    threads, down = across * rows, max(1, high // rows)
    if threads > MOST_THREADS or any(high % x.rows for x in blocks) or down * vector > MOST_HELD:
        said = " and ".join(f"{x.rows}x{x.columns}" for x in blocks)
        raise _refused(f"blocks of {said}", "up to 128x128, of which the higher ones are multiples of the others")
    return Spread(vector, rows * down, across * vector, _together(p), whole, threads, down=down)


def _turning(p: Pointwise, vector: int) -> Spread:
    """A CTA has a tile in registers and, on the way to who has it turned, in shared memory: of as few rows and columns
    as the blocks of all results take."""
    sizes = []
    for along in (False, True):  # which index: that of rows, that of columns
        scaled = [(o, o.scale) for o in p.outputs if o.scale is not None and o.scale.largest is None]
        blocks = [x.columns if p.is_turned(o) != along else x.rows for o, x in scaled]
        bits = [o.element.bits for o in p.outputs if p.is_turned(o) != along]
        size = max(SIDE, *blocks, 0)
        while size < MOST_SIDE and any(size * x % (8 * SECTOR) for x in bits):
            size *= 2
        sizes.append(size)
        if p.spans or size > MOST_SIDE or vector & (vector - 1) or any(size % max(1, x) for x in blocks):
            raise _refused(
                "results with another last index than what they are computed of, in such blocks or beside a whole row,",
                f"blocks of a power of two up to {MOST_SIDE}",
                "compute them of a copy, or what is found of rows in a program before",
            )
    scaled = {p.is_turned(o) for o in p.outputs if o.scale is not None}
    (rows, columns), n = sizes, p.columns.size
    if False in scaled:
        columns = MOST_SIDE
    if scaled == {True} or (len(scaled) == 2 and _tiles(p, MOST_SIDE) >= MANY * p.target.rates.sms):
        rows = MOST_SIDE
    threads, whole = THREADS * rows * columns // SIDE**2, bool(n) and not n % vector

    def of_rows(rows: int) -> Spread:
        down = rows * columns // vector // threads
        return Spread(vector, rows, columns, _together(p), whole, threads, down=down, turns=True)

    long = p.apart is not None and p.halves and scaled == {True}
    made = of_rows(LONG_SIDE if long else rows)
    return made if made.fits_stores(p) else of_rows(rows)


def _folding(p: Pointwise, vector: int) -> Spread:
    """A CTA has a line of each row, or less where there are few lines, and many rows at a time: all that memory has in
    flight for an SM, also where it has one CTA. All threads of a CTA have one range: where columns have theirs, it has
    one column."""
    n, across = p.columns.size, 1 if p.by_column else SECTORS
    others = prod(d.largest or MANY for d in p.rows)
    bits = min(x.element.bits for x in p.every if p.along(x)) if any(map(p.along, p.every)) else 8
    while (
        across > 1
        and across * vector * bits > 8 * SECTOR
        and (others * -(-(p.columns.largest or THREADS * THREADS) // (across * vector)) < p.target.rates.sms)
    ):
        across //= 2
    tiles = others * -(-(p.columns.largest or THREADS * THREADS) // (across * vector))
    threads = MOST_THREADS if tiles < 4 * p.target.rates.sms else ROW_THREADS
    reads = len({(x.name, x.coords) for x in p.every if p.along(x)})
    together = max(1, (MOST_TOGETHER if threads == MOST_THREADS else UNKNOWN_TOGETHER) // max(1, reads))
    whole = bool(n) and not n % vector
    return Spread(vector, 1, across * vector, together, whole, threads, folds=True)


def _tiles(p: Pointwise, side: int) -> int:
    """How many tiles there are with so many rows and columns; 0 where sizes are not known."""
    *outer, row, column = (d.largest or 0 for d in (*p.rows, p.columns))
    return prod(outer) * -(-row // side) * -(-column // side)


def _across(vectors: int) -> int:
    """Threads along a row of so many vectors, a power of two: the most that WASTED allows, or that waste least."""
    lanes = [x for x in (128, 64, 32, 16, 8, 4, 2, 1) if x < 2 * vectors] or [1]
    wasted = {x: -(-vectors // x) * x - vectors for x in lanes}
    wide = [x for x in lanes if x >= SECTORS]
    few = next((x for x in wide if WASTED * wasted[x] <= vectors), None)
    return few or min(wide or lanes[:1], key=lambda x: wasted[x])


def _together(p: Pointwise) -> int:
    """Terms that are loaded at once: all, or as many parts of them as are as long as each other."""
    sizes = [r.dim.size for r in p.reductions if not p.of_row(r)]
    if None in sizes:
        return UNKNOWN_TOGETHER
    terms = max((x or 0 for x in sizes), default=1)
    return max(1, -(-terms // max(1, -(-terms // MOST_TOGETHER))))
