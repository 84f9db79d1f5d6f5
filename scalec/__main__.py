"""`scalec`, and `python -m scalec`: the command line, which may be interrupted while it is being imported."""

import signal


def run() -> None:
    """Ends as a process that a signal ends until the command line can say so itself."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # as it is behind nohup, and of what a script runs beside itself
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from scalec.cli import main

    signal.signal(signal.SIGINT, before)
    main(prog_name="scalec")


if __name__ == "__main__":
    run()
