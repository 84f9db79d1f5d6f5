"""`python -m scalec`: the command of the same name, where its script is not on PATH."""

from scalec.cli import main

if __name__ == "__main__":
    main(prog_name="scalec")
