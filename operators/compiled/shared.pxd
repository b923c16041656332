"""What the compiled parts share: Python's own functions without reference counting, and two helpers."""

from cpython.ref cimport PyObject

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(list values, Py_ssize_t i)
    PyObject* PyTuple_GET_ITEM(PyObject* values, Py_ssize_t i)
    bint PyLong_CheckExact(PyObject* value)
    long long PyLong_AsLongLongAndOverflow(PyObject* value, int* overflow) except? -1
    bint PyObject_RichCompareBool(PyObject* one, PyObject* other, int how) except -1
    int Py_EQ

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define ask_for(address) __builtin_prefetch((address), 1)
    #define ask_to_read(address) __builtin_prefetch((address), 0)
    #else
    #define ask_for(address) ((void)0)
    #define ask_to_read(address) ((void)0)
    #endif
    """
    void ask_for(void* address)  # from the memory, what will be written soon, without waiting for it
    void ask_to_read(void* address)  # the same, of what will be read


cdef inline list checked(batch):
    """A batch as the list that it is; it may be of a subclass."""
    if not isinstance(batch, list):
        raise TypeError("a batch is a list")
    return <list> batch
