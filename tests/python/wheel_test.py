"""`pip install .` makes a package that works outside of the source tree. What CMake has built in
LOCKSTEP_BUILD_FOLDER is not built again."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@unittest.skipUnless(all(importlib.util.find_spec(m) for m in ("pip", "setuptools", "wheel")),
                     "pip, setuptools or wheel is not installed")
class WheelTest(unittest.TestCase):
    def test_an_installed_wheel_simulates_outside_of_the_source_tree(self):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "packages"
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            source = Path(folder) / "source"  # setuptools writes into the tree that it builds
            source.mkdir()
            for name in ("pyproject.toml", "setup.py", "README.md", "CMakeLists.txt", "python"):
                (source / name).symlink_to(ROOT / name)
            said = subprocess.run(
                [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps",
                 "--no-index", "--quiet", "--target", place, source],
                env=environment, cwd=folder, capture_output=True, text=True)
            self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
            code = ("import lockstep; print(lockstep.__file__); "
                    "print(lockstep.simulate(model={'preset': 'gpt2-tiny'}).step_time_s > 0)")
            said = subprocess.run([sys.executable, "-c", code], cwd=folder, check=True,
                                  env={**environment, "PYTHONPATH": str(place)},
                                  capture_output=True, text=True).stdout.splitlines()
            self.assertEqual(said, [str(place / "lockstep" / "__init__.py"), "True"])
            self.assertTrue((place / "lockstep" / "py.typed").exists())
            self.assertTrue((place / "lockstep" / "_lockstep.pyi").exists())


if __name__ == "__main__":
    unittest.main()
