"""Groups that are `apart`: each has blocks of scales of its own, counted from where it begins."""

from __future__ import annotations

from dataclasses import replace

from scalec.frontend import affine, ast
from scalec.frontend.diagnostics import Source
from scalec.frontend.program import Range, Statement, all_reads, reads_in


class Apart:
    """What a program says of groups that are apart, statement by statement."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.groups: dict[str, dict[int, Range]] = {}  # of each scaled tensor that was read
        self.ranges: dict[str, Range] = {}  # that are apart, by dimension

    def check_bounds(self, node: ast.Range, found: Range, used: set[str], contracts: bool) -> None:
        """Refuses bounds that read an index which is not `used` in the statement, unless they are offsets, by which
        each index of the range is one group's; where the statement `contracts`, an operand or the result has groups."""
        tells = None if contracts else _shared_by(found)
        for n in ast.walk(node.lower, node.upper):
            if isinstance(n, ast.IndexName) and (n.text == found.dim or n.text not in {*used, tells}):
                raise self.source.error(
                    n.span,
                    f"the range of {found.dim} depends on {n.text}",
                    got=f"{n.text}, which is " + ("the index itself" if n.text == found.dim else "in no tensor here"),
                    expected="bounds that read other indices of this statement",
                )

    def read(self, node: ast.Range, found: Range) -> Range:
        """The range with the dimension of which each index has blocks of its own, where the program says so."""
        said = next((p for p in node.promises if p.number is None), None)
        if said is None:
            return found
        if (group := _group_of(found)) is not None:
            known = self.ranges.setdefault(found.dim, found)
            if known.lower == found.lower:
                return replace(found, group=group)
            raise self.source.error(
                said.span,
                f"{found.dim} has two ranges whose groups are apart",
                got=f"{found.lower}:{found.upper}",
                expected=f"{known.lower}:{known.upper}, as before",
                fix="give one of the two dimensions another name",
            )
        raise self.source.error(
            said.span,
            f"groups of {found.dim} are apart, and the range does not tell where each begins",
            got=f"{found.lower}:{found.upper}",
            expected="the offsets of groups that follow one another, of one index: off[g]:off[g+1]",
            fix="leave out apart, or write the bounds into one tensor of offsets",
        )

    def note(self, node: ast.Statement, statement: Statement) -> None:
        """Notes of each scaled tensor of a statement along which of its indices each group has blocks of its own."""
        found = {r.dim: r for r in statement.ranges if r.group}
        for tensor, index in reads_in(statement.value):
            if not tensor.levels and not statement.copies:
                continue
            groups = _along(index, found)
            known = self.groups.setdefault(tensor.name, groups)
            one, other = ({axis: (r.dim, r.lower, r.upper) for axis, r in x.items()} for x in (known, groups))
            if one != other:
                raise self.source.error(
                    node.span,
                    f"{tensor.name} would have two grids of scales",
                    got="blocks that each group has of its own here, and others before"
                    if groups
                    else "blocks of all here, and each group's own before",
                    expected="the same range, apart or not, wherever a tensor with scales is read",
                    fix="give one of the two tensors another name",
                )
            tensor.groups = known
        for read in all_reads(statement.value):  # where a temporary has no value, what is computed of it has none
            if isinstance(read.source, Statement):
                found = {r.dim: r for r in read.source.tensor.groups.values()} | found
        statement.tensor.groups = _along(statement.index, found)


def _group_of(found: Range) -> str | None:
    """The index of the groups that share out a dimension by offsets, off[g]:off[g+1]; None of another range."""
    group = _shared_by(found)
    return (
        group if [x.index for x in affine.symbols(found.lower)] == [(affine.atom(affine.Dim(group or "")),)] else None
    )


def _shared_by(found: Range) -> str | None:
    """The index of the groups that share out a dimension by offsets, for each of others: g of off[b,g]:off[b,g+1]."""
    low, high = (x.terms[0][0] if affine.read(x) else None for x in (found.lower, found.upper))
    if not isinstance(low, affine.Symbol):
        return None
    for axis, index in enumerate(low.index):
        following = (*low.index[:axis], affine.add(index, affine.constant(1)), *low.index[axis + 1 :])
        if high == affine.Symbol(low.tensor, following):
            return affine.plain(index)
    return None


def _along(index: tuple[affine.Linear, ...], found: dict[str, Range]) -> dict[int, Range]:
    """The ranges of a tensor's indices, by their positions."""
    return {axis: found[name] for axis, i in enumerate(index) if (name := affine.plain(i) or "") in found}
