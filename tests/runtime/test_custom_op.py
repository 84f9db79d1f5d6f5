"""A kernel as an op of torch's: what torch.compile sees of it, what opcheck says, what is refused. On the emulator."""

from __future__ import annotations

import copy
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import scalec
from scalec.errors import ArgumentError
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import FakeDevice, simple_spec

PLAIN = "C[m,n] = A[m,k] @ B[n,k]"
PROGRAMS = {
    "plain": PLAIN,
    "scalar": "C[m,n]:f32 = alpha * (A[m,k] @ B[n,k]) + bias[n]",
    "accumulated": "C[m,n]:f32 += A[m,k] @ B[n,k]",
    "quantised": "D[m,n]:mxfp8 = A[m,k] @ B[n,k]",
    "fp8": "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)",
    "batched": "C[m,b,n] = A[m,b,k] @ B[b,n,k]",
}
N, K = 64, 128
FAILS = (RuntimeError, ArgumentError)


@pytest.fixture(autouse=True)
def _dynamo_anew(on_the_emulator):
    torch._dynamo.reset()


@pytest.fixture(scope="module")
def kernels():
    made: dict[str, Kernel] = {}

    def get(name: str) -> Kernel:
        if name not in made:
            made[name] = scalec.compile(PROGRAMS[name], target="sm_90a", dims={"n": N, "k": K})
        return made[name]

    return get


def arguments(name: str, m: int = 8, seed: int = 0) -> list:
    """Operands of one program, and the tensor that is accumulated into."""
    torch.manual_seed(seed)
    a, b = torch.randn(m, K), torch.randn(N, K)
    if name == "fp8":
        a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        return [a, b, torch.rand(m, 1) + 0.5, torch.rand(1, 1) + 0.5]
    ab = [a.bfloat16(), b.bfloat16()]
    if name == "batched":
        return [torch.randn(m, 3, K).bfloat16(), torch.randn(3, N, K).bfloat16()]
    return {"scalar": [0.5, *ab, torch.randn(N).bfloat16()], "accumulated": [*ab, torch.randn(m, N)]}.get(name, ab)


def same(x, y) -> bool:
    """Whether results are equal bit by bit."""
    if isinstance(x, tuple):
        return len(x) == len(y) and all(map(same, x, y))
    return x.shape == y.shape and x.stride() == y.stride() and torch.equal(x.view(torch.uint8), y.view(torch.uint8))


def graphs_of(function, *given, **options) -> tuple[object, list]:
    """(result, the functions that each graph of torch.compile calls)."""
    seen = []

    def backend(module, _example):
        seen.append([str(n.target) for n in module.graph.nodes if n.op == "call_function"])
        return module

    return torch.compile(function, fullgraph=True, backend=backend, **options)(*given), seen


SCHEMAS = {
    "plain": ["(Tensor A, Tensor B) -> Tensor", "(Tensor A, Tensor B, Tensor(a!) C) -> ()"],
    "scalar": [
        "(float alpha, Tensor A, Tensor B, Tensor bias) -> Tensor",
        "(float alpha, Tensor A, Tensor B, Tensor bias, Tensor(a!) C) -> ()",
    ],
    "accumulated": ["(Tensor A, Tensor B, Tensor(a!) C) -> ()"],
    "quantised": [
        "(Tensor A, Tensor B) -> (Tensor, Tensor)",
        "(Tensor A, Tensor B, Tensor(a!) D, Tensor(b!) D_scale) -> ()",
    ],
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_is_the_specs(kernels, name):
    op = kernels(name).op
    found = [str(getattr(op, o)._schema).partition("(") for o in sorted(op.overloads())]
    assert ["(" + rest for _, _, rest in found] == SCHEMAS[name]
    assert all(before.startswith(f"scalec::{kernels(name).spec.entry}_") for before, _, _ in found)


def test_names_that_a_schema_cannot_have():
    names = ("self", "from", "Ä", "Tensor", "out")
    kernel = scalec.compile(PLAIN, target="sm_90a", dims={"n": N, "k": K})
    for name in names:
        operands = (replace(kernel.spec.operands[0], name=name), kernel.spec.operands[1])
        arguments = tuple(replace(a, tensor=name) if a.tensor == "A" else a for a in kernel.spec.arguments)
        renamed = Kernel(replace(kernel.spec, operands=operands, arguments=arguments), b"", ptx=kernel.ptx)
        first = name if name in ("Tensor", "out") else "argument_0"
        assert [a.name for a in renamed.op.out._schema.arguments] == [first, "B", "C"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_opcheck(kernels, name):
    kernel, given = kernels(name), arguments(name)
    checks = [(kernel.op.default, given)]
    if name != "accumulated":
        made = kernel(*given)
        outs = [torch.empty_like(t) for t in (made if isinstance(made, tuple) else (made,))]
        checks.append((kernel.op.out, [*given, *outs]))
    for op, tensors in checks:
        tests = ["test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
        if all(
            t.element_size() > 1 for t in tensors if isinstance(t, torch.Tensor)
        ):  # torch compares no FP8 on the CPU
            tests.append("test_schema")
        assert torch.library.opcheck(op, tensors, test_utils=tests) == dict.fromkeys(tests, "SUCCESS")


@pytest.mark.once("name", "backend")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ["plain", "scalar", "quantised", "fp8", "batched"])
def test_compiled_calls_equal_eager_ones(kernels, name, backend):
    kernel = kernels(name)
    for options in ({}, {"dynamic": True}):
        torch._dynamo.reset()
        compiled = torch.compile(lambda *x: kernel(*x), fullgraph=True, backend=backend, **options)
        for m in (8, 17, 1, 40):
            given = arguments(name, m)
            assert same(compiled(*given), kernel(*given))


def test_the_graph_has_one_op_for_all_sizes(kernels):
    kernel = kernels("plain")
    a, b = arguments("plain", 9)
    got, seen = graphs_of(lambda a, b: torch.relu(kernel(a, B=b)) + 1, a, b, dynamic=True)
    ours = [x for x in seen[0] if x.startswith("scalec.")]
    assert ours == [f"{kernel.op.default}"]
    assert len(seen[0]) == 3
    assert torch.equal(got, torch.relu(kernel(a, b)) + 1)
    traced = []

    def counting(module, _example):
        traced.append(module)
        return module

    compiled = torch.compile(lambda a, b: kernel(a, b), fullgraph=True, backend=counting, dynamic=True)
    for m in (9, 30, 64):
        compiled(*arguments("plain", m))
    assert len(traced) == 1


@pytest.mark.once
@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_results_given_are_written(kernels, backend):
    def run(kernel, given, outs):
        kernel(*given, out=outs)
        return [t.float() * 2 for t in outs]

    for name in ("plain", "quantised"):
        kernel, given = kernels(name), arguments(name)
        made = kernel(*given)
        wanted = made if isinstance(made, tuple) else (made,)
        outs = tuple(torch.zeros_like(t) for t in wanted)
        torch._dynamo.reset()
        doubled = torch.compile(run, fullgraph=True, backend=backend)(kernel, given, outs)
        assert same(outs, wanted)
        assert all(torch.equal(x, t.float() * 2) for x, t in zip(doubled, wanted, strict=True))


@pytest.mark.once("backend", "how")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("how", ["position", "name", "out"])
def test_accumulated_results_are_mutated(kernels, backend, how):
    kernel = kernels("accumulated")
    a, b, c = arguments("accumulated")

    def run(a, b, c):
        before = c + 1
        same_c = {
            "position": lambda: kernel(a, b, c),
            "name": lambda: kernel(a, b, C=c),
            "out": lambda: kernel(a, b, out=c),
        }[how]()
        return before, same_c * 2

    wanted = c.clone()
    kernel(a, b, wanted)
    before, after = torch.compile(run, fullgraph=True, backend=backend)(a, b, given := c.clone())
    assert torch.equal(before, c + 1)
    assert torch.equal(given, wanted)
    assert torch.equal(after, wanted * 2)


@pytest.mark.thorough
def test_inductor(kernels):
    """With a C++ compiler; a transposed operand reaches the kernel with the strides that it has."""
    import shutil

    if not shutil.which("g++"):
        pytest.skip("no g++ for torch's inductor")
    kernel = kernels("plain")
    a, b = arguments("plain")
    compiled = torch.compile(lambda a, b: torch.relu(kernel(a * 2, b)).float() + 1, fullgraph=True)
    assert torch.equal(compiled(a, b), torch.relu(kernel(a * 2, b)).float() + 1)
    turned = torch.compile(lambda a, b: kernel(a.t().contiguous().t().contiguous(), b), fullgraph=True)
    assert torch.equal(turned(a, b), kernel(a, b))


def test_another_kernel_in_its_place_is_traced_again(kernels):
    box = {"kernel": kernels("plain")}
    a, b = arguments("plain")
    compiled = torch.compile(lambda a, b: box["kernel"](a, b), fullgraph=True, backend="eager")
    assert torch.equal(compiled(a, b), kernels("plain")(a, b))
    box["kernel"] = scalec.compile("C[m,n] = 2 * (A[m,k] @ B[n,k])", target="sm_90a", dims={"n": N, "k": K})
    assert torch.equal(compiled(a, b), 2 * kernels("plain")(a, b))


def test_specialisations_of_a_program(kernels):
    """As those of a bundle: by the sizes that torch.compile reads with."""
    from scalec.runtime.bundle import Program

    small = scalec.compile(PLAIN, target="sm_90a", dims={"n": 16, "k": 32})
    program = Program("C", [kernels("plain"), small])
    compiled = torch.compile(lambda a, b: program(a, b), fullgraph=True, backend="eager")
    for given in (arguments("plain"), [torch.randn(5, 32).bfloat16(), torch.randn(16, 32).bfloat16()]):
        assert torch.equal(compiled(*given), program(*given))


def test_one_program_is_one_op(kernels):
    again = scalec.compile(PLAIN, target="sm_90a", dims={"n": N, "k": K})
    assert again is not kernels("plain")
    assert again.op is kernels("plain").op
    other = scalec.compile(PLAIN, target="sm_90a", dims={"n": N, "k": K}, schedule={"stages": 2})
    assert other.op is not kernels("plain").op


def test_kernels_bound_to_devices_have_ops_of_their_own():
    devices = [FakeDevice(place=("cpu", 0)) for _ in range(2)]
    kernels = [Kernel(simple_spec(), b"", device=d) for d in (*devices, devices[0])]
    first, second, third = (k.op for k in kernels)
    assert first is third
    assert first is not second
    given = (1.0, torch.zeros(4, 8).bfloat16(), torch.zeros(8, 4).bfloat16(), torch.zeros(4))
    first(*given), second(*given), second(*given)
    assert [len(d.launches) for d in devices] == [1, 2]


def test_batches_whose_indices_lie_in_another_order(kernels):
    """Strides that sizes do not tell: traced again for another order, never for another size."""
    kernel, traced = kernels("batched"), []

    def counting(module, _example):
        traced.append(module)
        return module

    compiled = torch.compile(lambda a, b: kernel(a, b), fullgraph=True, backend=counting, dynamic=True)
    for times, order in ((1, (0, 1, 2)), (2, (1, 0, 2))):
        for m in (8, 17, 40):
            a, b = arguments("batched", m)
            a = a.permute(order).contiguous().permute(order)
            assert same(compiled(a, b), kernel(a, b))
        assert len(traced) == times


@pytest.mark.parametrize("strict", [True, False])
def test_export(kernels, strict):
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = kernels("plain")
            self.weight = torch.nn.Parameter(arguments("plain")[1], requires_grad=False)

        def forward(self, x):
            return self.kernel(x, self.weight)

    layer = copy.deepcopy(Layer())
    a, b = arguments("plain")
    m = torch.export.Dim("m", min=2, max=64)
    program = torch.export.export(layer, (a,), dynamic_shapes={"x": {0: m}}, strict=strict)
    (node,) = [n for n in program.graph.nodes if n.op == "call_function"]
    assert node.target is kernels("plain").op.default
    longer = torch.cat([a, a])
    assert torch.equal(program.module()(longer), kernels("plain")(longer, b))


def test_a_size_that_nobody_knows_before(kernels):
    def run(count):
        m = count.sum().item()
        torch._check(m >= 2)
        torch._check(m < 64)
        return kernel(torch.ones(m, K, dtype=torch.bfloat16), b)

    kernel, b = kernels("plain"), arguments("plain")[1]
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        got = torch.compile(run, fullgraph=True, backend="aot_eager")(torch.tensor([3, 4]))
    assert torch.equal(got, kernel(torch.ones(7, K, dtype=torch.bfloat16), b))


def test_tensors_without_memory(kernels):
    from torch._subclasses import FakeTensorMode

    for name in ("plain", "quantised", "batched"):
        given = arguments(name)
        made = kernels(name)(*given)
        wanted = made if isinstance(made, tuple) else (made,)
        with FakeTensorMode() as mode:
            fakes = kernels(name)(*(mode.from_tensor(t) for t in given))
        metas = kernels(name)(*(t.to("meta") for t in given))
        for found in (fakes, metas):
            for t, w in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
                assert (t.shape, t.stride(), t.dtype) == (w.shape, w.stride(), w.dtype)


def test_transforms_and_modes_see_it(kernels):
    kernel = kernels("plain")
    a, b = arguments("plain")
    many = torch.stack([a, -a])
    assert torch.equal(torch.vmap(lambda a: kernel(a, b))(many), torch.stack([kernel(x, b) for x in many]))
    traced = torch.jit.trace(lambda a: kernel(a, b), (a,), check_trace=False)
    assert torch.equal(traced(-a), kernel(-a, b))
    from torch.utils._python_dispatch import TorchDispatchMode

    class Listen(TorchDispatchMode):
        heard: list

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.heard.append(function)
            return function(*args, **(kwargs or {}))

    with Listen() as mode:
        mode.heard = []
        got = kernel(a, b)
        assert mode.heard == [kernel.op.default]
    assert torch.equal(got, kernel(a, b))


def test_what_requires_grad_is_refused(kernels):
    kernel = kernels("plain")
    a, b = arguments("plain")
    b.requires_grad_()
    for call in (kernel, kernel.op, torch.compile(lambda a, b: kernel(a, b), fullgraph=True, backend="aot_eager")):
        with pytest.raises(FAILS, match="B requires grad, and a kernel has no backward"):
            call(a, b)
        with torch.no_grad():
            assert torch.equal(call(a, b), kernel(a, b.detach()))
    with pytest.raises(ArgumentError, match="A requires grad"):
        torch.func.grad(lambda a: kernel(a, b.detach()).float().sum())(a)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda k, a, b: k(a, b[:8]), "B has n = 8, the kernel was compiled for n = 64"),
        (lambda k, a, b: k(a.float(), b), "A is f32, expected bf16"),
        (lambda k, a, b: k(a.t().contiguous().t(), b), r"A is not contiguous along index 1 \(k\)"),
        (lambda k, a, b: k(a), "missing argument B"),
        (lambda k, a, b: k(a, b, D=a), "C has no argument 'D'"),
        (lambda k, a, b: k(a, b, out=(a, b)), "out has 2 results, C has 1"),
        (lambda k, a, b: k(a, b, out=a), "C has extent 128 along index 1|C has n = 128"),
        (lambda k, a, b: k(a, b, stream=0), "stream is given in a call that torch sees as an op"),
        (lambda k, a, b: k(a, b.to("meta")), "B is on meta, A is on cpu|Unhandled FakeTensor Device Propagation"),
    ],
)
def test_refusals_while_compiling(kernels, change, message):
    kernel, (a, b) = kernels("plain"), arguments("plain")  # made before torch.compile reads
    with pytest.raises(FAILS, match=message):
        torch.compile(lambda a, b: change(kernel, a, b), fullgraph=True, backend="eager")(a, b)


def run_fresh(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.thorough  # the process imports torch and its compiler
def test_torch_is_not_imported_and_may_come_late():
    code = f"""
import sys, scalec
from scalec.errors import ArgumentError
kernel = scalec.compile({PLAIN!r}, target="sm_90a", dims={{"n": 16, "k": 32}})
try:
    kernel.op
except ArgumentError as error:
    print(error)
import numpy, ml_dtypes
kernel(*[numpy.zeros((16, 32), ml_dtypes.bfloat16)] * 2)
print("torch" in sys.modules)
import torch
a, b = torch.randn(4, 32).bfloat16(), torch.randn(16, 32).bfloat16()
got = torch.compile(lambda a, b: kernel(a, b), fullgraph=True, backend="eager")(a, b)
print(torch.equal(got, kernel(a, b)))
"""
    wanted = (
        "an op is one of torch's, which has not been imported\n  expected: torch among the imported modules\n"
        "  fix: import torch\nFalse\nTrue\n"
    )
    assert run_fresh(code) == wanted
