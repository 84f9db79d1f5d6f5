"""The table of sm_100a: the common functions, to which this folder adds its own."""

from scalec.lowering.common import kernel  # noqa: F401 - it fills the common table
from scalec.lowering.common.state import COMMON

TABLE = COMMON.extended("sm_100a", settles=True)
