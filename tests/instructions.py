"""That a usual run meets every instruction of the emulator's table. The session ends with it: no single test knows what
the others ran."""

from __future__ import annotations

from typing import Any

import pytest

from scalec.emulator.instructions import load_all, table

ALL = ("", "not gpu", "not gpu and not thorough")
"""Values of -m that a run of all usual tests has."""


def instruction(row: str) -> tuple[str, Any]:
    """Rows of one opcode and one function are one instruction: `add.rn.f32` and `add.rz.f32` differ by modifiers."""
    return row.partition(".")[0], table._TABLE[row][0]


class Watched(dict[str, Any]):
    """The table, and the rows by which an instruction of a kernel was decoded: all of it are when it is launched."""

    met: set[str]

    def get(self, key: str, default: Any = None) -> Any:
        if key in self:
            self.met.add(key)
        return super().get(key, default)


class Instructions:
    """Fails a session of all usual tests whose processes, together, did not meet an instruction."""

    def __init__(self) -> None:
        assert load_all
        table._TABLE = Watched(table._TABLE)
        self.met = table._TABLE.met = set()
        self.missing: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.met.update(getattr(node, "workeroutput", {}).get("instructions", ()))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        config = session.config
        if hasattr(config, "workeroutput"):
            config.workeroutput["instructions"] = sorted(self.met)
        elif (
            config.args_source is pytest.Config.ArgsSource.TESTPATHS
            and session.exitstatus == pytest.ExitCode.OK
            and config.option.markexpr in ALL
            and not (config.option.keyword or config.option.collectonly)
        ):
            met = {instruction(row) for row in self.met}
            self.missing = sorted(row for row in table._TABLE if instruction(row) not in met)
            if self.missing:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for row in self.missing:
            terminalreporter.write_line(f"no test ran {row}, a row of the emulator's table", red=True)
