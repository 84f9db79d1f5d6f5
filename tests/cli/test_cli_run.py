"""`scalec run`: refusals without a GPU; the whole command on a device in host memory."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from scalec.abi import Extent, TensorSpec
from scalec.checking import compare, launch
from scalec.commands import run
from scalec.errors import DeviceError
from scalec.formats import Granularity
from scalec.reference import Results, quantize, to_layout
from scalec.runtime import devices
from tests.cli.cli_programs import FP8

SIZES = ("--dim", "m=200,n=512", "--dim", "k=256")


@dataclass
class HostDevice:
    """Memory of a device, without the device: launches call `launched`."""

    name: str = "a device in host memory"
    capability: tuple[int, int] = (9, 0)
    sms: int = 132
    place: tuple[str, int] = ("cuda", 0)
    image: str = "cubin"
    mover: Any = None
    memory: dict[int, bytearray] = field(default_factory=dict)
    launched: Callable[[], None] = lambda: None
    addresses: Any = field(default_factory=lambda: itertools.count(1 << 20, 1 << 24))

    def load(self, image: bytes, entry: str, shared_bytes: int) -> Any:
        return entry

    def clusters(self, function: Any, threads: int, shared_bytes: int, cluster: int) -> int:
        return self.sms // cluster

    def encode(self, tensor_map: Any) -> Any:
        import ctypes

        return ctypes.create_string_buffer(128)

    def prepare(
        self,
        function: Any,
        grid: int,
        threads: int,
        shared_bytes: int,
        parameters: Any,
        tensors: Any = (),
        dependent: bool = False,
    ) -> Any:
        return lambda stream: self.launched()

    def locate(self, address: int) -> tuple[str, int]:
        return self.place

    def allocate(self, size: int, stream: int) -> int:
        address = next(self.addresses)
        self.memory[address] = bytearray(size)
        return address

    def free(self, address: int, stream: int) -> None:
        del self.memory[address]

    def upload(self, address: int, data: Any, stream: int) -> None:
        self.memory[address][: len(data)] = data

    def download(self, address: int, size: int, stream: int) -> bytes:
        return bytes(self.memory[address][:size])

    def order(self, first: int, then: int) -> None: ...

    def synchronize(self, stream: int) -> None: ...

    def record(self, stream: int) -> float:
        return 0.0

    def elapsed(self, first: float, last: float) -> float:
        return launch.LAUNCHES * 5e-6


@pytest.fixture
def on_host(monkeypatch):
    """Makes `run` use a HostDevice whose launches write what `results` turns the reference's into."""

    def use(results: Callable[[np.ndarray], np.ndarray]) -> HostDevice:
        device = HostDevice()
        kept: dict[str, Any] = {}

        def upload(*arguments):
            given, outputs = original_upload(*arguments)
            kept["outputs"] = outputs
            return given, outputs

        def made_up(source, sizes, seed):
            values, expected = original_made_up(source, sizes, seed)
            kept["expected"] = list(expected.values())
            return values, expected

        def launched() -> None:
            for output, expected in zip(kept["outputs"], kept["expected"], strict=True):
                data = results(np.asarray(expected)).astype(output.numpy().dtype)
                rows = np.ascontiguousarray(data)
                assert output.strides == tuple(stride // rows.itemsize for stride in rows.strides)
                device.upload(output.pointer, rows.tobytes(), 0)

        original_upload, original_made_up = run.upload, run.made_up
        monkeypatch.setattr(run, "upload", upload)
        monkeypatch.setattr(run, "made_up", made_up)
        monkeypatch.setattr(devices, "default", lambda target, ordinal=None: device)
        device.launched = launched
        return device

    return use


@pytest.fixture
def no_gpu(monkeypatch):
    from scalec.runtime import driver

    def refuse(ordinal: int | None = None):
        raise DeviceError("no NVIDIA driver on this machine", fix="run on a machine with an NVIDIA GPU")

    monkeypatch.setattr(driver, "device", refuse)
    monkeypatch.setenv("SCALEC_DEVICE", "cuda")


def test_without_a_gpu(invoke, no_gpu):
    result = invoke("run", FP8, *SIZES)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no NVIDIA driver" in result.stderr


def test_a_dimension_without_a_size_gets_one(invoke, on_host):
    on_host(lambda expected: expected)
    result = invoke("run", FP8, "--dim", "m=1")
    assert result.exit_code == 0, result.stderr
    assert "m = 1, n = 192, k = 256" in result.stderr
    result = invoke("run", "Z[b,h,d] = X[b,h,r] @ Y[h,d,r]", "--dim", "d=8")
    assert result.exit_code == 0, result.stderr
    assert "b = 192, h = 3, d = 8, r = 256" in result.stderr
    result = invoke("run", "D[m,n] = A[b,m,k] @ B[b,n,k]", "--dim", "m=8")
    assert result.exit_code == 0, result.stderr
    assert "m = 8, n = 192, b = 3, k = 256" in result.stderr


def test_wrong_programs_are_refused_before_a_gpu_is_sought(invoke, no_gpu):
    result = invoke("run", "C[m,n] = A[m,k]@B[n,q]", *SIZES)
    assert result.exit_code == 1
    assert "index k is in A alone" in result.stderr


def test_misuse(invoke):
    assert invoke("run").exit_code == 2
    assert invoke("run", FP8, "--dim", "m").exit_code == 2
    assert invoke("run", FP8, "--seed", "x").exit_code == 2


def test_a_right_result(invoke, on_host):
    on_host(lambda expected: expected)
    result = invoke("run", FP8, *SIZES)
    assert result.exit_code == 0, result.stderr
    head, row = result.stdout.splitlines()
    assert head.split() == ["result", "diff", "at", "most", "max", "error", "at", "most", "us", "TFLOP/s", "GB/s"]
    name, diff, limit, largest, most, us, tflops, _, verdict = row.split()
    assert (name, us, tflops) == ("C", "5.0", f"{2 * 200 * 512 * 256 / 5e-6 / 1e12:.0f}")
    assert 0 < float(diff) < 3e-6 < float(limit)
    assert 0 < float(largest) < 5e-3 < float(most)
    assert verdict == "PASS"
    assert "a device in host memory" in result.stderr
    assert "tile=" not in result.stderr
    assert "schedule: swap=0, tile=" in invoke("run", FP8, *SIZES, "-v").stderr


@pytest.mark.parametrize("right", [True, False])
def test_json(invoke, on_host, right: bool):
    on_host(lambda expected: expected if right else np.full_like(expected, np.nan))
    result = invoke("run", FP8, *SIZES, "--json", "--seed", "3")
    found = json.loads(result.stdout, parse_constant=pytest.fail)
    assert result.exit_code == (0 if right else 1)
    assert found["pass"] is right
    assert (found["program"], found["target"], found["seed"]) == (FP8, "sm_90a", 3)
    assert found["dims"] == {"m": 200, "n": 512, "k": 256}
    assert found["schedule"].startswith("swap=0, tile=")
    (one,) = found["results"]
    assert (one["name"], one["pass"], one["diff"] is None) == ("C", right, not right)
    assert found["us"] == pytest.approx(5)


def test_the_emulator_tells_how_long_and_how_far(invoke, monkeypatch):
    """Before the launch about how long, during it what part of the work is done: up to all of it, never falling."""
    seen: list[float] = []
    monkeypatch.setenv("SCALEC_DEVICE", "emulator")
    monkeypatch.setattr(run, "WORTH_SAYING", 0)
    monkeypatch.setattr("scalec.emulator.machine.machine._REPORTED", 1)
    monkeypatch.setattr("rich.progress.Progress.update", lambda self, task, completed: seen.append(completed))
    result = invoke("run", FP8, "--dim", "m=128,n=256,k=512", "--schedule", "tile=128x128x128")
    assert result.exit_code == 0, result.stderr
    assert "the emulator will take about 0 s" in result.stderr
    assert seen == sorted(seen)
    assert seen[-1] == 128 * 256 * 512
    assert len(set(seen)) > 2  # something between nothing and all


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (91, "2 min"), (304, "5 min"), (9e3, "2 h")])
def test_durations_are_for_people(seconds: float, text: str):
    assert run._duration(seconds) == text


def test_an_epilogue_and_accumulation(invoke, on_host):
    on_host(lambda expected: expected)
    program = "C[m,n]:f32 += alpha * (A[m,k]@B[n,k] scale(1x128:f32@col,128x128)) + bias[n]"
    assert invoke("run", program, *SIZES).exit_code == 0


def test_rows_are_padded_where_copies_need_it(invoke, on_host, monkeypatch):
    placed, place = {}, launch.placed

    def keep(device, t, data, **options):
        placed[t.name] = place(device, t, data, **options)
        return placed[t.name]

    monkeypatch.setattr(launch, "placed", keep)
    on_host(lambda expected: expected)
    result = invoke("run", FP8, "--dim", "m=200,n=512,k=100")
    assert result.exit_code == 0, result.stderr
    assert (placed["A"].shape, placed["A"].strides) == ((200, 100), (112, 1))
    assert (placed["B"].shape, placed["B"].strides) == ((512, 100), (112, 1))


@pytest.mark.parametrize(
    "wrong",
    [lambda c: c * 1.1, lambda c: np.where(np.arange(c.size).reshape(c.shape) == 7, np.nan, c), np.zeros_like],
    ids=["scaled", "nan", "zero"],
)
def test_a_wrong_result(invoke, on_host, wrong):
    on_host(wrong)
    result = invoke("run", FP8, *SIZES)
    assert result.exit_code == 1
    assert result.stdout.split()[-1] == "FAIL"
    assert "wrong result: C" in result.stderr


@pytest.mark.parametrize(
    ("dtype", "got", "expected"),
    [
        (ml_dtypes.float8_e4m3fn, 448.0, 1e6),
        (ml_dtypes.float8_e5m2, -57344.0, -1e9),
        (ml_dtypes.float4_e2m1fn, 6.0, 7.3),
        (np.float16, np.inf, 1e6),
        (np.float16, 65504.0, 65519.0),
        (ml_dtypes.bfloat16, -np.inf, -1e300),
        (np.float32, np.inf, 1e300),
        (np.int8, 127, 3000.0),
    ],
)
def test_a_result_beyond_the_largest_number_of_its_type(dtype, got, expected):
    """As conversions give it: the largest number of 8 bits and fewer, and of integers; infinity of others."""
    others = np.array([1.0, -2.0])
    values = np.append(others, got).astype(dtype)
    assert compare.check("C", values, np.append(others, expected)).ok
    assert not compare.check("C", values, np.append(others, -expected)).ok
    assert not compare.check("C", values, np.array([1.0, -2.0, 0.5])).ok


def test_the_seed_makes_the_data(invoke, on_host):
    on_host(lambda expected: expected)
    outputs = [invoke("run", FP8, *SIZES, "--seed", seed).stdout for seed in ("1", "1", "2")]
    assert outputs[0] == outputs[1] != outputs[2]


@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("shape", [(5, 3), (1, 1), (7,), (2, 3, 5), ()])
def test_tensors_keep_their_values_in_their_layout(shape, layout):
    data = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(ml_dtypes.bfloat16)
    spec = TensorSpec("A", "bf16", tuple(Extent(size=e) for e in shape), layout, align=16)
    made = launch.placed(HostDevice(), spec, data)
    np.testing.assert_array_equal(made.numpy(), data)
    if len(shape) > 1:
        inner = len(shape) - (2 if layout == "col" else 1)
        assert made.strides[inner] == 1
        assert all(step * 2 % 16 == 0 for axis, step in enumerate(made.strides) if axis != inner)


def test_what_a_type_rounds_away_is_allowed():
    exact = np.random.default_rng(0).standard_normal((64, 64))
    for kind in (np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        assert compare.check("C", exact.astype(kind), exact).ok
    assert not compare.check("C", (exact * 1.05).astype(ml_dtypes.bfloat16), exact).ok


QUANTISED = [  # element, layout and type of scales
    ("e4m3", "row", "f32"),
    ("e4m3", "col", "f32"),
    ("e5m2", "row", "ue8m0"),
    ("e4m3", "packed", "ue8m0"),
    ("e2m1", "blocked", "ue8m0"),
    ("e2m1", "row", "ue4m3"),
]


@pytest.mark.parametrize(("element", "layout", "kind"), QUANTISED)
def test_a_quantised_result_is_what_it_stands_for(element: str, layout: str, kind: str):
    """Scales in any layout; one twice as large is right where its values are half as large, and only there. A block of
    small scale counts as much as any."""
    g = Granularity((1, 32), kind, layout)
    source = np.random.default_rng(0).standard_normal((40, 96)) * np.exp2(np.arange(40) % 7)[:, None]
    source[5, :32] = 0
    found = quantize(source, element, [g])
    expected = Results()
    expected.update(D=found.exact, D_scale=found.scales[0].astype(np.float64))
    expected.scales["D"] = ("D_scale", g, {})

    def checked(values: np.ndarray, scales: np.ndarray) -> list[bool]:
        kinds = found.values.dtype, found.scales[0].dtype
        arrays = {"D": values.astype(kinds[0]), "D_scale": to_layout(scales.astype(kinds[1]), layout)}
        return [c.ok for c in compare.compare(arrays, expected)]

    values, scales = found.values.astype(np.float32), found.scales[0].astype(np.float64)
    assert checked(values, scales) == [True, True]
    doubled, halved, negated, zeroed = scales.copy(), values.copy(), values.copy(), values.copy()
    doubled[7, 1] *= 2
    halved[7, 32:64] /= 2
    assert checked(halved, doubled)[0]
    assert not checked(values, doubled)[0]
    assert checked(values, scales[::-1]) == [False, False]
    negated[7] *= -1  # of least scale
    assert checked(negated, scales) == [False, True]
    zeroed[7, :32] = 0
    assert checked(zeroed, scales) == [False, True]


@pytest.mark.parametrize("result", ["e4m3 scale(1x32:ue8m0@packed)", "e4m3 scale(1x32:ue8m0@blocked)", "nvfp4"])
def test_quantised_results_on_the_emulator(invoke, on_the_emulator, result: str):
    program = f"D[m,n]:{result} = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1x128,128x128)"
    found = invoke("run", program, "--dim", "m=33,n=200,k=128" if result == "nvfp4" else "m=33,n=96,k=128")
    assert found.exit_code == 0, found.stderr
    assert [line.split()[0] for line in found.stdout.splitlines()] == ["result", "D", "D_scale"]


@pytest.mark.parametrize("empty", ["m", "k"])
def test_sizes_of_nothing(invoke, on_the_emulator, empty: str):
    sizes = ",".join(f"{d}={0 if d == empty else 16}" for d in "mnk")
    result = invoke("run", "C[m,n] = relu(A[m,k]@B[n,k] + b[n])", "--dim", sizes, "--target", "sm_90a")
    assert (result.exit_code, result.stdout.count("PASS")) == (0, 1), result.stderr
    wrong = invoke("bench", "C[m,n] = A[m,k]@B[n,k]", "--dim", f"{empty}=0")
    assert (wrong.exit_code, f"{empty} = 0: there is nothing that `bench` could time" in wrong.stderr) == (1, True)


def test_data_that_memory_cannot_hold_is_refused_before_it_is_made(invoke) -> None:
    result = invoke("run", "C[m,n] = A[m,k]@B[n,k]", "--dim", "m=2147483647,n=4096,k=8")
    assert result.exit_code == 1
    assert "the reference needs more memory than there is\n  got: 70506 GB" in result.stderr
