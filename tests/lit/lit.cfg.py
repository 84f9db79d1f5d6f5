# The suite of FileCheck tests: one file is one test; `lit -v tests/lit`, or through pytest (tests/test_lit.py).
import os
import sys

import lit.formats

config.name = "scalec"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir", ".scale"]  # noqa: F821
config.test_source_root = os.path.dirname(__file__)  # noqa: F821
config.test_exec_root = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"scalec-lit-{os.getuid()}")  # noqa: F821

# `scalec` and `filecheck` are those of the Python that runs lit
path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
config.environment["PATH"] = path  # noqa: F821
for name in ("HOME", "PYTHONPATH"):
    if name in os.environ:
        config.environment[name] = os.environ[name]  # noqa: F821
config.environment["SCALEC_TUNING"] = "off"  # noqa: F821

tool = f"{sys.executable} {os.path.join(os.path.dirname(__file__), 'tool.py')}"
config.substitutions.append(("%roundtrip", f"{tool} roundtrip"))  # noqa: F821
config.substitutions.append(("%invalid", f"{tool} invalid"))  # noqa: F821
