"""How a command ends: one message on stderr and an exit code, no traceback."""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from typing import Any

import click

from scalec import env
from scalec.commands import program
from scalec.commands.output import open_streams
from scalec.errors import ScalecError


class Commands(click.Group):
    """A group whose commands end as Unix expects: one message on stderr and an exit code, no traceback."""

    def main(self, *args: Any, **extra: Any) -> Any:
        open_streams()
        return super().main(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings():
                for sentence in env.unknown():
                    click.echo(f"warning: {sentence}", err=True)
                    warnings.filterwarnings("ignore", re.escape(sentence))  # scalec.compile says so too
                result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except ScalecError as error:
            _complain(str(program.located(error)))
            ctx.exit(1)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader is gone: whoever reads on will not miss us
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                ctx.exit(1)
            where = f"{error.filename!s:.200}: " if error.filename else ""
            _complain(f"{where}{error.strerror or error}")
            ctx.exit(1)
        except MemoryError:
            _complain("out of memory")
            ctx.exit(1)
        except KeyboardInterrupt:
            ctx.exit(130)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of use, not of the alphabet


def _complain(message: str) -> None:
    """One diagnostic on stderr; `error:` in red where stderr is a terminal and NO_COLOR is not set."""
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    label = click.style("error:", fg="red", bold=True) if colour else "error:"
    click.echo(f"{label} {message}", err=True, color=colour)
