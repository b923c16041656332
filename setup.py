"""What `setup.cfg` cannot say: the parts that are compiled. Without a compiler Livelog is installed without them."""

from Cython.Build import cythonize
from setuptools import Extension, setup

FOLDER = "operators/compiled"

modules = cythonize(
    [
        Extension(f"operators.compiled.{part}", [f"{FOLDER}/{part}.pyx"], include_dirs=[FOLDER],
                  depends=[f"{FOLDER}/prefetch.h"])
        for part in ("cells", "facts", "rows")
    ],
    build_dir="build",
)  # fmt: skip
for module in modules:
    module.optional = True  # said here, because `cythonize` forgets it
setup(ext_modules=modules)
