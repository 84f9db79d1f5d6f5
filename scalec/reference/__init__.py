"""What programs mean: the numpy reference, the quantisers, the data and the error measures of the tests."""

from scalec.reference.data import make
from scalec.reference.evaluate import Results, run
from scalec.reference.measure import Errors, diff, errors, max_error
from scalec.reference.packing import (
    decode,
    from_blocked,
    from_layout,
    from_packed,
    numpy_dtype,
    pack4,
    pack6,
    storage,
    to_blocked,
    to_col,
    to_layout,
    to_packed,
    unpack4,
    unpack6,
)
from scalec.reference.quantize import (
    Quantized,
    cast,
    dequantize,
    e8m0_scale,
    encode_scale,
    quantize,
    quantize_format,
    round_to,
)

__all__ = [
    "Errors",
    "Quantized",
    "Results",
    "cast",
    "decode",
    "dequantize",
    "diff",
    "e8m0_scale",
    "encode_scale",
    "errors",
    "from_blocked",
    "from_layout",
    "from_packed",
    "make",
    "max_error",
    "numpy_dtype",
    "pack4",
    "pack6",
    "quantize",
    "quantize_format",
    "round_to",
    "run",
    "storage",
    "to_blocked",
    "to_col",
    "to_layout",
    "to_packed",
    "unpack4",
    "unpack6",
]
