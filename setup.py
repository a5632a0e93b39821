"""Builds the compiled module of the Python package with CMake.

LOCKSTEP_BUILD_FOLDER names a folder that CMake has configured: what is built there is not built
again.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


class CMakeBuild(build_ext):
    def build_extension(self, ext):
        folder = Path(os.environ.get("LOCKSTEP_BUILD_FOLDER", ROOT / "build" / "wheel")).resolve()
        if "LOCKSTEP_BUILD_FOLDER" not in os.environ:
            subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
                            "-DLOCKSTEP_QUICK_BUILD=ON", "-DLOCKSTEP_BUILD_TESTS=OFF",
                            f"-DPython3_EXECUTABLE={sys.executable}"], check=True)
        cores = len(os.sched_getaffinity(0))
        subprocess.run(["cmake", "--build", folder, "--target", "lockstep_python",
                        "--parallel", str(cores)], check=True)
        place = Path(self.get_ext_fullpath(ext.name))
        built = folder / "python" / "lockstep" / place.name
        if not built.exists():
            sys.exit(f"setup.py: {folder} was configured for another Python: it has no {place.name}")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(built, place)


version = re.search(r"project\(lockstep VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
setup(version=version[1], ext_modules=[Extension("lockstep._lockstep", [])],
      cmdclass={"build_ext": CMakeBuild})
