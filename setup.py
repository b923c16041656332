"""What `setup.cfg` cannot say: the parts that are compiled. Without a compiler Livelog is installed without them."""

from Cython.Build import cythonize
from setuptools import Extension, setup

modules = cythonize(
    [
        Extension(f"operators.compiled.{part}", [f"operators/compiled/{part}.pyx"])
        for part in ("cells", "columns", "facts", "rows")
    ],
    build_dir="build",
)
for module in modules:
    module.optional = True  # said here, because `cythonize` forgets it
setup(ext_modules=modules)
