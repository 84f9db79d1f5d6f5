"""The kernel spec travels as JSON and comes back equal."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalec.abi import PADDED, TILES, Argument, Dropped, Extent, KernelSpec, Launch, TensorSpec
from scalec.formats import ELEMENT_TYPES
from tests.runtime.fake import gemm_spec

names = st.text(max_size=8)
sizes = st.integers(0, 2**40)
extents = st.builds(Extent, dim=names, divisor=st.integers(1, 4096), size=sizes)
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
arguments = st.builds(
    Argument,
    kind=st.sampled_from(["tensor_map", "pointer", "dim", "stride", "scalar"]),
    tensor=names,
    dim=names,
    axis=st.integers(0, 4),
    box=st.lists(st.integers(1, 256), max_size=5).map(tuple),
    swizzle=st.sampled_from([0, 32, 64, 128]),
    atom=st.sampled_from([16, 32]),
    element=st.sampled_from(["", PADDED, TILES]),
    permuted=st.sampled_from([0, 16]),
)
tiles = st.lists(st.tuples(names, st.integers(1, 256), st.integers(1, 8)), max_size=3).map(tuple)
specs = st.builds(
    KernelSpec,
    source=names,
    target=names,
    entry=names,
    dims=st.dictionaries(names, st.none() | sizes, max_size=4),
    operands=st.lists(tensors, max_size=3).map(tuple),
    results=st.lists(tensors, max_size=2).map(tuple),
    arguments=st.lists(arguments, max_size=4).map(tuple),
    launch=st.builds(
        Launch, threads=sizes, shared_bytes=sizes, cluster=st.integers(1, 16), tiles=tiles, dynamic=st.booleans()
    ),
    schedule=names,
    flops=st.lists(names, max_size=3).map(tuple),
    dropped=st.lists(st.builds(Dropped, schedule=names, reason=names), max_size=2).map(tuple),
)


@given(specs)
def test_round_trip(spec):
    again = KernelSpec.from_json(spec.to_json())
    assert again == spec
    assert again.to_json() == spec.to_json()


@pytest.mark.parametrize("text", ["{}", "[]", "null", "nonsense", '{"version": 1}', '{"version": 99}'])
def test_what_is_no_spec_is_a_value_error(text):
    with pytest.raises(ValueError):
        KernelSpec.from_json(text)


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
    assert replace(launch, dynamic=True).grid({"m": m, "n": n}, clusters) == units * 2


def test_a_spec_of_before_launch_control_is_refused():
    """It does not say how many CTAs to launch."""
    data = json.loads(gemm_spec().to_json())
    del data["launch"]["dynamic"]
    with pytest.raises(ValueError, match="version 4"):
        KernelSpec.from_json(json.dumps(data | {"version": 2}))


def test_extents():
    assert [str(e) for e in (Extent("k"), Extent("k", 128), Extent(size=3))] == ["k", "ceil(k/128)", "3"]
    assert [e.value({"k": 129}) for e in (Extent("k"), Extent("k", 128), Extent(size=3))] == [129, 2, 3]
