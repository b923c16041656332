"""What `setup.cfg` cannot say: the parts that are compiled. Without a compiler Livelog is installed without them."""

from Cython.Build import cythonize
from setuptools import Extension, setup

PARTS = ("cells", "facts", "rows")

setup(
    ext_modules=cythonize(
        [
            Extension(
                f"operators.compiled.{part}",
                [f"operators/compiled/{part}.pyx"],
                include_dirs=["operators/compiled"],
                depends=["operators/compiled/prefetch.h"],
                optional=True,
            )
            for part in PARTS
        ],
        build_dir="build",
    )
)
