"""What `setup.cfg` cannot say: the parts that are compiled. Without a compiler Livelog is installed without them."""

from Cython.Build import cythonize
from setuptools import Extension, setup

PARTS = ("facts", "rows", "tally")

setup(
    ext_modules=cythonize(
        [Extension(f"operators.compiled.{p}", [f"operators/compiled/{p}.pyx"], optional=True) for p in PARTS],
        build_dir="build",
    )
)
