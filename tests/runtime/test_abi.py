"""The kernel spec travels as JSON and comes back equal."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalec.abi import PADDED, PARAMETERS, TILES, Argument, Dropped, Extent, KernelSpec, Launch, Limit, TensorSpec
from scalec.errors import FormatError
from scalec.formats import ELEMENT_TYPES
from scalec.runtime.slots import SLOTS
from tests.runtime.fake import gemm_spec

names = st.text(max_size=8)
sizes = st.integers(1, 2**31 - 1)
dims = st.dictionaries(names, st.none() | sizes, min_size=1, max_size=4)
entries = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_$]{0,8}", fullmatch=True)


@st.composite
def specs(draw: st.DrawFn) -> KernelSpec:
    """A spec that speaks of no dimension or tensor that it does not have."""
    known = draw(dims)
    dim = st.sampled_from(sorted(known))
    extents = st.builds(Extent, dim=st.just("") | dim, divisor=sizes, size=sizes)
    tensors = st.builds(
        TensorSpec,
        name=names,
        dtype=st.sampled_from(sorted(ELEMENT_TYPES)),
        shape=st.lists(extents, max_size=4).map(tuple),
        layout=st.sampled_from(["row", "col", "packed", "blocked"]),
        align=st.sampled_from([1, 16, 128]),
        scalar=st.booleans(),
        inout=st.booleans(),
    )
    every = draw(st.lists(tensors, max_size=5, unique_by=lambda t: t.name))
    first, others = draw(st.integers(0, len(every))), [t for t in every if not t.scalar]
    tensor = st.sampled_from([t.name for t in others]) if others else st.nothing()
    arguments = st.one_of(
        st.builds(
            Argument,
            kind=st.sampled_from(["tensor_map", "pointer"]),
            tensor=tensor,
            axis=st.integers(0, 4),
            box=st.lists(st.integers(1, 256), max_size=5).map(tuple),
            swizzle=st.sampled_from([0, 32, 64, 128]),
            atom=st.sampled_from([16, 32]),
            element=st.sampled_from(["", PADDED, TILES]),
            permuted=st.sampled_from([0, 16]),
        ),
        st.builds(Argument, kind=st.just("dim"), dim=dim),
        st.builds(Argument, kind=st.sampled_from(["parts", "counters"])),
    )
    dynamic = [d for d, size in known.items() if size is None]
    ranges = {d: draw(st.tuples(sizes, sizes).map(lambda r: (min(r), max(r)))) for d in dynamic[:1]}
    return KernelSpec(
        source=draw(names),
        target=draw(st.sampled_from(["sm_90a", "sm_120a"])),
        entry=draw(entries),
        dims=known,
        operands=tuple(every[:first]),
        results=tuple(every[first:]),
        arguments=tuple(draw(st.lists(arguments, max_size=4))),
        launch=draw(
            st.builds(
                Launch,
                threads=st.integers(1, 1024),
                shared_bytes=sizes,
                cluster=st.integers(1, 16),
                tiles=st.lists(st.tuples(dim, st.integers(1, 256), st.integers(1, 8)), max_size=3).map(tuple),
                one_each=st.booleans(),
            )
        ),
        schedule=draw(names),
        flops=tuple(draw(st.lists(dim, max_size=3))),
        dropped=tuple(draw(st.lists(st.builds(Dropped, schedule=names, reason=names), max_size=2))),
        ranges=ranges,
        limits={d: Limit(draw(names), draw(names)) for d in ranges if draw(st.booleans())},
    )


@given(specs())
def test_round_trip(spec):
    again = KernelSpec.from_json(spec.to_json())
    assert again == spec
    assert again.to_json() == spec.to_json()


@pytest.mark.parametrize("text", ["{}", "[]", "null", "nonsense", '{"version": 1}', '{"version": 99}'])
def test_what_is_no_spec_is_a_value_error(text):
    with pytest.raises(ValueError):
        KernelSpec.from_json(text)


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("launch", "cluster"), 0, "launch.cluster: 0, expected 1 to 16"),
        (("launch", "threads"), True, "launch.threads: True, expected an integer"),
        (("launch", "split"), 0, "launch.split: 0, expected 1 to"),
        (("launch", "tiles", 0), ["m", 0, 1], r"launch.tiles\[0\]\[1\]: 0, expected"),
        (("launch", "tiles", 0, 0), "q", "no dimension 'q', expected m, n, k"),
        (("operands", 2, "shape", 1, "divisor"), 0, r"operands\[2\].shape\[1\].divisor: 0, expected"),
        (("operands", 0, "shape", 0, "dim"), [], r"operands\[0\].shape\[0\].dim: an array of 0, expected a text"),
        (("operands", 1, "name"), "A", "two tensors of one name"),
        (("operands", 0, "dtype"), "e9m9", "dtype: 'e9m9', expected one of"),
        (("operands", 0, "scalar"), True, "a parameter of kind tensor_map for 'A'"),
        (("dims", "k"), 10**400, "dims.k: an integer of 1329 bits, expected 0 to 2147483647 or null"),
        (("entry",), "C;", "entry: 'C;', expected an identifier of PTX"),
        (("source",), "\ud800", "source: .*, expected whole characters"),
        (("ranges",), {"m": [5, 2]}, "a range 5:2 of m"),
        (("limits",), {"m": {"reason": "", "fix": ""}}, "a limit of m, expected one of a dimension with a range"),
        (("launch", "spans"), [["m", "m"]], "m and m walked as one, expected two dimensions that are not fixed"),
        (("arguments", 8, "dim"), "q", "no dimension 'q'"),
        (("arguments", 2, "tensor"), "Z", "a parameter of kind pointer for 'Z'"),
        (("arguments", 3, "axis"), 2, "axis 2 of A_scale, which has 2"),
    ],
)
def test_what_cannot_be_is_refused_by_name(path, value, text):
    """The first three divided by zero at a call, others were a KeyError there."""
    data = json.loads(gemm_spec().to_json())
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(FormatError, match=text):
        KernelSpec.from_json(json.dumps(data))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"version": ' + "9" * 5000 + "}", "not JSON"),
        ('{"version": 5, "version": 5}', "'version' is there twice"),
        ('{"version": NaN}', "NaN is no number here"),
        ('{"version": 5, "source": "\\', "not JSON"),
    ],
)
def test_what_no_document_says(text, message):
    with pytest.raises(FormatError, match=message):
        KernelSpec.from_json(text)


def test_kinds_of_parameters_are_those_of_the_runtime():
    assert PARAMETERS.keys() == SLOTS.keys()


def test_a_field_too_many_is_a_value_error():
    data = json.loads(gemm_spec().to_json())
    with pytest.raises(ValueError, match="not a scalec kernel spec"):
        KernelSpec.from_json(json.dumps(data | {"colour": "green"}))


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 200))
def test_the_grid(m, n, clusters):
    launch = gemm_spec().launch
    units = math.ceil(math.ceil(m / 128) / 2) * math.ceil(n / 128)
    grid = launch.grid({"m": m, "n": n}, clusters)
    assert launch.units({"m": m, "n": n}) == units
    assert grid == min(units, clusters) * 2
    assert replace(launch, one_each=True).grid({"m": m, "n": n}, clusters) == units * 2


def test_a_spec_of_before_launch_control_is_refused():
    """It does not say how many CTAs to launch."""
    data = json.loads(gemm_spec().to_json())
    del data["launch"]["one_each"]
    with pytest.raises(ValueError, match="version 14"):
        KernelSpec.from_json(json.dumps(data | {"version": 2}))


def test_extents():
    assert [str(e) for e in (Extent("k"), Extent("k", 128), Extent(size=3))] == ["k", "ceil(k/128)", "3"]
    assert [e.value({"k": 129}) for e in (Extent("k"), Extent("k", 128), Extent(size=3))] == [129, 2, 3]


def test_a_size_that_is_a_number_in_the_kernel_is_not_walked_with_another():
    spec = gemm_spec(k=1024)
    spec = replace(spec, launch=replace(spec.launch, spans=(("m", "k"),)))
    with pytest.raises(FormatError, match="m and k walked as one"):
        KernelSpec.from_json(spec.to_json())
