"""Programs in `scale`, as text, for the tests of the passes."""

from __future__ import annotations

MAPS = """
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#n = affine_map<(m, n, k) -> (n)>
"""


def text(
    m: int | str = 4096,
    n: int | str = 7168,
    k: int | str = 2048,
    *,
    element: str = "f8E4M3FN",
    result: str = "bf16",
    a_block: str | None = "1, 128",
    b_block: str | None = "128, 128",
    layout: str = "row",
) -> str:
    """C[m,n] = A[m,k]@B[n,k] scale(a_block, b_block) + bias[n]; None: no scale; "?" for a dimension left open."""
    a, b, t, c = f"tensor<{m}x{k}x{element}>", f"tensor<{n}x{k}x{element}>", f"tensor<{m}x{n}xf32>", f"tensor<{m}x{n}"
    lhs = rhs = ""
    operands, types = ["%A", "%B"], [a, b]
    if a_block:
        lhs = f"""%a = "scale.dequantize"(%A, %s) {{granularity = #scale.granularity<array<i64: {a_block}>, "f32",
            "{layout}">}} : ({a}, tensor<?x?xf32>) -> tensor<{m}x{k}xf32>"""
        operands[0], types[0] = "%a", f"tensor<{m}x{k}xf32>"
    if b_block:
        rhs = f"""%b = "scale.dequantize"(%B, %t) {{granularity = #scale.granularity<array<i64: {b_block}>, "f32",
            "{layout}">}} : ({b}, tensor<?x?xf32>) -> tensor<{n}x{k}xf32>"""
        operands[1], types[1] = "%b", f"tensor<{n}x{k}xf32>"
    bits = {"f32": 32}.get(result, 16)
    convert = "" if bits == 32 else f"%y = arith.truncf %p : f32 to {result}"
    return f"""{MAPS}
    func.func @C(%A: {a} {{scale.name = "A"}}, %B: {b} {{scale.name = "B"}},
                 %s: tensor<?x?xf32> {{scale.name = "A_scale"}}, %t: tensor<?x?xf32> {{scale.name = "B_scale"}},
                 %bias: tensor<{n}xf32> {{scale.name = "bias"}})
        -> ({c}x{result}> {{scale.name = "C"}}) attributes {{scale.dims = ["m", "n", "k"]}} {{
      {lhs}
      {rhs}
      %c = "scale.contract"({", ".join(operands)}) {{operandSegmentSizes = array<i32: 1, 1, 0, 0>,
          maps = [#mk, #nk, #mn]}} : ({", ".join(types)}) -> {t}
      %v = "scale.read"(%c) {{operandSegmentSizes = array<i32: 1, 0>, map = #mn}} : ({t}) -> !scale.view
      %w = "scale.read"(%bias) {{operandSegmentSizes = array<i32: 1, 0>, map = #n}} : (tensor<{n}xf32>) -> !scale.view
      %r = "scale.map"(%v, %w) ({{
      ^bb0(%x: f32, %z: f32):
        %p = arith.addf %x, %z : f32
        {convert}
        "scale.yield"({"%p" if bits == 32 else "%y"}) : ({result}) -> ()
      }}) {{operandSegmentSizes = array<i32: 2, 0, 0>, map = #mn}} : (!scale.view, !scale.view) -> {c}x{result}>
      return %r : {c}x{result}>
    }}"""
