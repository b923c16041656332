# cython: language_level=3
"""Whether rows are tuples of plain values already, compiled: see `livelog.values`."""

from cpython.ref cimport PyObject
from libc.math cimport isfinite
from operators.compiled.shared cimport (
    PyList_GET_ITEM,
    PyLong_AsLongLongAndOverflow,
    PyLong_CheckExact,
    PyTuple_GET_ITEM,
    checked,
)

cdef extern from "Python.h":
    Py_ssize_t PyTuple_GET_SIZE(PyObject* values)
    bint PyTuple_CheckExact(PyObject* value)
    bint PyFloat_CheckExact(PyObject* value)
    bint PyUnicode_CheckExact(PyObject* value)
    bint PyUnicode_IS_ASCII(PyObject* value)
    double PyFloat_AS_DOUBLE(PyObject* value)

cdef extern from *:
    """
    /* Whether a whole number has a single digit, as nearly all have: then it has far less than 64 bits. */
    #if PY_VERSION_HEX >= 0x030C0000
    #define is_short(value) PyUnstable_Long_IsCompact((PyLongObject *)(value))
    #else
    #define is_short(value) (-1 <= Py_SIZE(value) && Py_SIZE(value) <= 1)
    #endif
    """
    bint is_short(PyObject* value)

cdef enum:
    WHOLE = 1
    NEGATIVE = 2
    REAL = 4
    TEXT = 8

KINDS = {
    "number": WHOLE | NEGATIVE,
    "unsigned": WHOLE,
    "float": REAL,
    "symbol": TEXT,
    "numeric": WHOLE | NEGATIVE | REAL,
    "any": WHOLE | NEGATIVE | REAL | TEXT,
}
"""By type, what a value may be. Whole numbers have 64 bits with their sign, texts are of ASCII: others are not plain."""


def are_plain(batch, bytes kinds not None):
    """Whether all rows of a list are tuples of plain values, each of the kind that its column has."""
    cdef list rows = checked(batch)
    cdef Py_ssize_t i, k, width = len(kinds)
    cdef const unsigned char* kind = kinds
    cdef PyObject* row
    cdef PyObject* value
    cdef long long whole
    cdef int overflow
    for i in range(len(rows)):
        row = PyList_GET_ITEM(rows, i)
        if not PyTuple_CheckExact(row) or PyTuple_GET_SIZE(row) != width:
            return False
        for k in range(width):
            value = PyTuple_GET_ITEM(row, k)
            if PyLong_CheckExact(value):
                if kind[k] & NEGATIVE and is_short(value):
                    continue
                if not kind[k] & WHOLE:
                    return False
                whole = PyLong_AsLongLongAndOverflow(value, &overflow)
                if overflow or (whole < 0 and not kind[k] & NEGATIVE):
                    return False
            elif PyUnicode_CheckExact(value):
                if not kind[k] & TEXT or not PyUnicode_IS_ASCII(value):
                    return False
            elif not PyFloat_CheckExact(value) or not kind[k] & REAL or not isfinite(PyFloat_AS_DOUBLE(value)):
                return False
    return True
