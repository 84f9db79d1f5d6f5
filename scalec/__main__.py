"""`scalec`, and `python -m scalec`: the command line, which may be interrupted while it is being imported."""

import _signal as signal  # what `signal` is made of, whose own first line imports enum: 20 of the 25 ms before `run`


def run() -> None:
    """Ends as a process that a signal ends, with nothing on stderr, until the command line can say so itself.

    An interrupt while Python starts, before this module's first line, is Python's to report.
    """
    before = signal.getsignal(signal.SIGINT)
    heeded = before != signal.SIG_IGN  # as it is behind nohup, and of what a script runs beside itself
    if heeded:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from scalec.cli import main

    try:
        signal.signal(signal.SIGINT, before)
        main(prog_name="scalec")
    except KeyboardInterrupt:  # beside the commands, which end so themselves
        raise SystemExit(130) from None
    finally:
        if heeded:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is said of one while Python ends


if __name__ == "__main__":
    run()
