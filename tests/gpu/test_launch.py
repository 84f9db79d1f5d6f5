"""Launches on a GPU: CUDA graphs, tensors elsewhere at each call, streams, and the kernel as an op of torch's."""

from __future__ import annotations

import shutil
import threading

import pytest

import scalec
from scalec.errors import ArgumentError, DeviceError
from tests.gpu.test_dense import FP8, quantised

pytestmark = pytest.mark.gpu

M, N, K = 64, 2112, 7168
# whole K, K in parts, and both where a launch may begin before the one before it has ended
SCHEDULES = ["split=1, dependent=0", "split=4, dependent=0", "split=1, dependent=1024", "split=4, dependent=1024"]


def compiled(schedule: str = "", program: str = FP8):
    return scalec.compile(f"{program} with {schedule}" if schedule else program, dims={"n": N, "k": K})


def sets(torch, count: int, m: int = M) -> list[list]:
    """Operands of FP8, as often as asked: other values each time, all in other memory."""
    (a, b, sa, sb), _, _ = quantised(torch, m, N, K)
    made = []
    for i in range(count):
        rows = torch.randperm(m, device="cuda")
        made.append(
            [
                a.view(torch.uint8)[rows].view(a.dtype),
                b if i % 2 else b.clone(),
                sa[rows].contiguous() * (1 + i),
                sb.clone(),
            ]
        )
    return made


@pytest.fixture
def quick(monkeypatch):
    """quick(kernel): from now on its calls must be like earlier ones."""

    def forbid(*_: object) -> None:
        raise AssertionError("a call unlike any before")

    return lambda kernel: monkeypatch.setattr(kernel, "_first", forbid)


@pytest.mark.parametrize("allocated", [False, True], ids=["given", "allocated"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_graph_is_replayed_with_other_inputs(torch, schedule: str, allocated: bool) -> None:
    kernel, every = compiled(schedule), sets(torch, 5)
    wanted = [kernel(*given).clone() for given in every]
    assert not torch.equal(wanted[0], wanted[1])
    static = [t.clone() for t in every[0]]
    out = torch.zeros_like(wanted[0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if allocated:
            out = kernel(*static)
        else:
            kernel(*static, out=out)
        doubled = out.float() * 2  # torch's kernel follows ours
    for given, expected in zip(every, wanted, strict=True):
        for to, value in zip(static, given, strict=True):
            to.copy_(value)
        for _ in range(20):
            graph.replay()
        assert torch.equal(out, expected)
        assert torch.equal(doubled, expected.float() * 2)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_graph_of_many_launches(torch, schedule: str) -> None:
    """Each link reads what the one before wrote; eager calls of the same kernel between replays change nothing."""
    kernel = scalec.compile(f"C[m,n] = A[m,k] @ B[n,k] with {schedule}", dims={"n": 1024, "k": 1024})
    torch.manual_seed(1)
    b = torch.linalg.qr(torch.randn(1024, 1024, device="cuda"))[0].bfloat16().contiguous()
    x = torch.randn(32, 1024, device="cuda").bfloat16()

    def chain(a):
        for _ in range(20):
            a = kernel(a, b)
        return a

    wanted, wanted_minus = chain(x), chain(-x)
    static, graph = x.clone(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = chain(static)
    for value, expected in ((x, wanted), (-x, wanted_minus), (x, wanted)):
        static.copy_(value)
        graph.replay()
        assert torch.equal(got, expected)
        assert torch.equal(chain(-value), wanted_minus if value is x else wanted)


@pytest.mark.parametrize("schedule", ["", "split=4"])
def test_tensors_elsewhere_at_each_call(torch, quick, schedule: str) -> None:
    """More than a plan keeps launchers for, twice each; what a call computes does not hang on the calls before it."""
    kernel, one = compiled(schedule), compiled(schedule)
    every = sets(torch, 300)
    outs = [torch.zeros(M, N, device="cuda", dtype=torch.bfloat16) for _ in every]
    wanted = [one(*given) for given in every]
    kernel(*every[0], out=outs[0])
    kernel(*every[0])
    quick(kernel)
    for given, out, expected in (*zip(every, outs, wanted, strict=True), *zip(every, outs[::-1], wanted, strict=True)):
        assert kernel(*given, out=out) is out
        assert torch.equal(out, expected)
        assert torch.equal(kernel(*given), expected)


def test_sizes_by_turns_on_two_streams(torch, quick) -> None:
    kernel = compiled()
    every = {m: sets(torch, 1, m)[0] for m in (1, 16, 64, 500)}
    wanted = {m: kernel(*given) for m, given in every.items()}
    quick(kernel)
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for i in range(50):
        with torch.cuda.stream(streams[i % 2]):
            found = {m: kernel(*given) for m, given in every.items()}
            assert all(torch.equal(found[m], wanted[m]) for m in every)
    handle = streams[0].cuda_stream
    for stream in (streams[0], handle):
        found = kernel(*every[16], stream=stream)
        streams[0].synchronize()
        assert torch.equal(found, wanted[16])


def test_another_gpu_than_the_current_one(torch, quick) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    kernel, (given,) = compiled(), sets(torch, 1)
    wanted = kernel(*given)
    there = [t.to("cuda:1") for t in given]
    kernel(*there)
    quick(kernel)
    for _ in range(3):
        got = kernel(*there)
        assert got.device.index == 1
        assert torch.cuda.current_device() == 0
        assert torch.equal(got.cpu(), wanted.cpu())
        assert torch.equal(kernel(*given), wanted)
    with pytest.raises(DeviceError, match=r"INVALID_HANDLE[^$]*fix: a stream of the GPU that the tensors are on"):
        kernel(*given, stream=torch.cuda.Stream("cuda:1"))


def test_an_operand_on_the_host(torch) -> None:
    """The first one too, by which nobody else's device is told."""
    kernel, (given,) = compiled(), sets(torch, 1)
    for at in range(len(given)):
        some = [t.cpu() if i == at else t for i, t in enumerate(given)]
        with pytest.raises(ArgumentError, match=rf"{kernel.spec.operands[at].name} is on the CPU"):
            kernel(*some)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_bound_calls(torch, quick, schedule: str) -> None:
    """On torch's current stream, or a given one; the inputs and the result are static buffers."""
    kernel, every = compiled(schedule), sets(torch, 6)
    wanted = [kernel(*given).clone() for given in every]
    static, out = [t.clone() for t in every[0]], torch.zeros_like(wanted[0])
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for stream in (None, side):
        bound = kernel.bind(*static, out=out, stream=stream)
        quick(kernel)
        for given, expected in zip(every, wanted, strict=True):
            with torch.cuda.stream(side):
                for to, value in zip(static, given, strict=True):
                    to.copy_(value)
                assert bound() is out
                assert torch.equal(out, expected)
        assert bound._ready.trampoline is not None  # needs llvmlite


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_graph_of_bound_calls(torch, schedule: str) -> None:
    """Two of them, never launched before the capture; both follow what their buffers hold."""
    kernel, (one, other) = compiled(schedule), sets(torch, 2)
    outs = [torch.zeros(M, N, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    calls = [kernel.bind(*given, out=out) for given, out in zip((one, other), outs, strict=True)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for bound in calls:
            bound()
    for _ in range(3):
        one[2].mul_(2)
        graph.replay()
        for given, out in zip((one, other), outs, strict=True):
            assert torch.equal(out, kernel(*given))


def test_a_bound_call_follows_its_tensors(torch) -> None:
    kernel, (one, other) = compiled(), sets(torch, 2)
    out = torch.zeros(M, N, device="cuda", dtype=torch.bfloat16)
    bound = kernel.bind(*one, out=out)
    bound()
    wanted = kernel(other[0], *one[1:])
    one[0].set_(other[0])
    assert torch.equal(bound(), wanted)
    one[0].resize_(M // 2, K)
    with pytest.raises(scalec.ArgumentError, match="A_scale has m = 64, A has m = 32"):
        bound()


def test_trampolines_from_many_threads(torch) -> None:
    """Each on a stream of its own, with tensors elsewhere each time."""
    kernel, every = compiled(), sets(torch, 16)
    wanted = [kernel(*given) for given in every]
    for _ in range(20):
        kernel(*every[0])
    torch.cuda.synchronize()
    wrong: list[int] = []

    def run(first: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
            for i in range(200):
                at = (first + i) % len(every)
                if not torch.equal(kernel(*every[at]), wanted[at]):
                    wrong.append(at)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_thread_that_has_not_used_cuda(torch) -> None:
    """It has no context: tensor maps that move to tensors elsewhere need ours. torch would make its own current."""
    kernel, every = compiled("split=1"), sets(torch, 3)
    wanted = [kernel(*given) for given in every]
    outs = [torch.full_like(w, float("nan")) for w in wanted]
    kernel(*every[0], out=outs[0])
    torch.cuda.synchronize()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            for given, out in zip(every[1:], outs[1:], strict=True):
                kernel(*given, out=out)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert not failed
    assert all(torch.equal(a, b) for a, b in zip(outs, wanted, strict=True))


PROGRAMS = {"fp8": FP8, "scalar": "C[m,n] = alpha * (A[m,k] @ B[n,k])", "accumulated": "C[m,n] += A[m,k] @ B[n,k]"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_opcheck(torch, name: str) -> None:
    kernel = compiled(program=PROGRAMS[name])
    a, b = (torch.randn(rows, K, device="cuda").bfloat16() for rows in (M, N))
    c = torch.randn(M, N, device="cuda").bfloat16()
    given = {"fp8": sets(torch, 1)[0], "scalar": [0.5, a, b], "accumulated": [a, b, c]}[name]
    tests = ["test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    tests += ["test_schema"] if name != "fp8" else []  # torch compares no FP8
    assert torch.library.opcheck(kernel.op.default, given, test_utils=tests) == dict.fromkeys(tests, "SUCCESS")


# torch's inductor builds code with a C compiler; "reduce-overhead" captures what it has built into CUDA graphs
OPTIONS = {"aot_eager": {"backend": "aot_eager"}, "inductor": {}, "reduce-overhead": {"mode": "reduce-overhead"}}


@pytest.fixture(params=OPTIONS)
def options(torch, request) -> dict:
    if request.param != "aot_eager" and not (shutil.which("g++") and shutil.which("gcc")):
        pytest.skip("no C compiler for torch's inductor")
    torch._dynamo.reset()
    return OPTIONS[request.param]


def test_torch_compile(torch, options: dict) -> None:
    kernel = compiled()

    def layer(a, b, sa, sb):
        return torch.relu(kernel(a, b, sa, sb)).float() + 1

    fast = torch.compile(layer, fullgraph=True, **options)
    with torch.inference_mode():
        for m in (M, 16, 100):
            for given in sets(torch, 4, m):
                torch.compiler.cudagraph_mark_step_begin()
                assert torch.equal(fast(*given), layer(*given))


def test_results_given_to_a_compiled_function(torch, options: dict) -> None:
    kernel, every = compiled(), sets(torch, 4)
    out = torch.zeros(M, N, device="cuda", dtype=torch.bfloat16)

    def run(a, b, sa, sb, out):
        kernel(a, b, sa, sb, out=out)
        return out * 2

    fast = torch.compile(run, fullgraph=True, **options)
    with torch.inference_mode():
        for given in every:
            torch.compiler.cudagraph_mark_step_begin()
            doubled = fast(*given, out)
            assert torch.equal(out, kernel(*given))
            assert torch.equal(doubled, out * 2)


def test_sums_of_nothing(torch, guarded) -> None:
    kernel = scalec.compile("C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,128x128) * x[m]")
    x = torch.randn(M, device="cuda", dtype=torch.bfloat16)
    for k in (0, 0, 256, 0):
        a, b = (torch.ones(rows, k, device="cuda").to(torch.float8_e4m3fn) for rows in (M, N))
        sa, sb = (torch.ones(rows, -(-k // 128), device="cuda") for rows in (M, -(-N // 128)))
        out, intact = guarded((M, N), torch.float32)
        out.fill_(0.5)
        kernel(a, b, sa, sb, x, out=out)
        assert torch.equal(out, 0.5 + k * x.float()[:, None].expand(M, N))
        assert intact()
