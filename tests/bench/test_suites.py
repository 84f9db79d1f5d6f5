"""The suites: that they are what they say."""

from __future__ import annotations

import pytest

from scalec.bench import projections
from scalec.bench.suites import BF16, DECODE, DEEPGEMM, LARGE, PEERS, SUITES, get_suite
from scalec.errors import ScalecError


def sizes(shapes) -> list[tuple[int, int, int]]:
    return [(s["m"], s["n"], s["k"]) for s in shapes]


def test_hopper_fp8_is_the_peers_and_thirty_more():
    suite = get_suite("hopper-fp8")
    assert suite.shapes[:14] == PEERS == get_suite("peers").shapes
    assert len(set(sizes(suite.shapes))) == len(suite.shapes) == len(suite.labels) == 44
    assert {s["m"] for s in suite.shapes[14:]} == {2**i for i in range(15)}  # 1 to 16384
    for model in ("Llama-3.1-8B", "Llama-3.1-70B", "Llama-3.1-405B", "Qwen", "DeepSeek-V3"):
        assert any(model in label for label in suite.labels)


def test_peers_are_those_that_were_measured():
    assert sizes(PEERS) == [
        (1, 7168, 2048), (16, 7168, 2048), (64, 2112, 7168), (64, 7168, 2048), (128, 7168, 16384), (128, 24576, 1536),
        (4096, 2112, 7168), (4096, 24576, 1536), (4096, 32768, 512), (4096, 7168, 16384), (4096, 4096, 7168),
        (4096, 7168, 2048), (4096, 5120, 8192), (8192, 8192, 8192),
    ]  # fmt: skip
    assert (len(DECODE), len(LARGE)) == (6, 8)
    assert DECODE + LARGE == PEERS
    suite = get_suite("hopper-fp8")
    assert suite.groups == {"decode (six)": DECODE, "large (eight)": LARGE}
    assert [suite.published_at(s) for s in suite.shapes[14:]] == [{}] * 30
    assert suite.published_at({"m": 64, "n": 2112, "k": 7168}) == {DEEPGEMM: 2.33}
    assert suite.label({"m": 4096, "n": 5120, "k": 8192}) == "Qwen3-32B o"
    assert suite.label({"m": 1, "n": 1, "k": 1}) == ""


def test_goals_of_other_programs_have_their_shapes():
    assert {(8192, 8192, 8192), (4096, 7168, 4096)} <= set(sizes(get_suite("bf16").shapes))
    assert get_suite("bf16").source == BF16
    assert get_suite("hopper-fp8-rows").shapes == get_suite("hopper-fp8-f32").shapes == LARGE


@pytest.mark.parametrize(
    ("layers", "hidden", "intermediate"),
    [(projections.LLAMA_8B, 4096, 14336), (projections.LLAMA_70B, 8192, 28672), (projections.QWEN2_7B, 3584, 18944)],
)
def test_a_transformer_s_layers(layers, hidden, intermediate):
    assert (layers["gate_up"].n, layers["gate_up"].k) == (2 * intermediate, hidden)
    assert (layers["down"].n, layers["down"].k) == (hidden, intermediate)
    assert layers["o"].n == layers["qkv"].k == hidden
    assert hidden == layers["o"].k < layers["qkv"].n < 2 * hidden  # grouped queries: fewer keys and values than queries


def test_every_suite_has_what_torch_asks_for():
    for suite in SUITES.values():
        assert all(s["n"] % 16 == 0 and s["k"] % 16 == 0 for s in suite.shapes)
        assert len(suite.labels) in (0, len(suite.shapes))


def test_unknown():
    with pytest.raises(ScalecError, match="no suite 'nope'"):
        get_suite("nope")
