"""Imports every family, which fills the table."""

from importlib import import_module
from pkgutil import iter_modules

import scalec.emulator.instructions as package

for _module in iter_modules(package.__path__):
    if _module.name not in ("table", "load_all"):
        import_module(f"{package.__name__}.{_module.name}")
