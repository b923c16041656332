# cython: language_level=3
"""The columns of rows, and objects in another order, compiled: see `livelog.exchange`.

Rows lie scattered in memory, and so do their values: nearly all time goes into waiting for them. So all columns are
filled in one walk over the rows, and what a row needs is asked for some rows before it is its turn: first the tuple, and
when that is there, its values.
"""

from cpython.buffer cimport PyBUF_ND, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy
from operators.compiled.shared cimport (
    PyList_GET_ITEM,
    PyLong_AsLongLongAndOverflow,
    PyLong_CheckExact,
    PyTuple_GET_ITEM,
    ask_for,
    ask_to_read,
    checked,
)

cdef extern from "Python.h":
    Py_ssize_t PyTuple_GET_SIZE(PyObject* values)
    bint PyTuple_CheckExact(PyObject* value)
    bint PyFloat_CheckExact(PyObject* value)
    bint PyUnicode_CheckExact(PyObject* value)
    bint PyUnicode_IS_COMPACT_ASCII(PyObject* value)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject* value)
    void* PyUnicode_DATA(PyObject* value)
    const char* PyUnicode_AsUTF8AndSize(PyObject* value, Py_ssize_t* size) except NULL
    double PyFloat_AS_DOUBLE(PyObject* value)
    unsigned long long PyLong_AsUnsignedLongLong(PyObject* value) except? 0xFFFFFFFFFFFFFFFF
    Py_hash_t PyObject_Hash(PyObject* value) except -1

cdef extern from *:
    """
    #define PyList_ADDRESS(values, i) (&((PyListObject *)(values))->ob_item[i])
    """
    void* PyList_ADDRESS(list values, Py_ssize_t i)

cdef enum:
    NUMBER = 1
    UNSIGNED = 2
    FLOAT = 3
    TEXT = 4
    NAME = 5
    FAR = 24  # rows ahead, whose tuples are asked for
    NEAR = 12  # rows ahead, whose values are asked for
    HEADER = 48  # bytes before the letters of a text

cdef Py_ssize_t LARGEST = 2**31 - 1

KINDS = {"number": NUMBER, "unsigned": UNSIGNED, "float": FLOAT, "symbol": TEXT, "name": NAME}
"""What a column may be. A name is a text that comes again and again."""


cdef struct Slot:
    PyObject* text
    Py_hash_t hash
    uint32_t code

cdef struct Column:
    unsigned char kind
    char* values  # of numbers; the codes of names; where texts end
    char* letters
    Py_ssize_t used, room  # letters
    Slot* slots  # names by their hash, in the first free place from it on
    size_t mask
    uint32_t known


def columns_of(batch, bytes kinds not None):
    """The columns of a list of tuples; None if a value is not of its column's kind, or too large for it.

    A column of numbers is their bytes; one of texts is the places where they start and end, and their letters; one of
    names is the number of each among the different ones, and these, in the order in which they came.
    """
    cdef list rows = checked(batch)
    cdef Py_ssize_t i, k, count = len(rows), width = len(kinds)
    cdef list held = [], words = []
    cdef bint fits
    cdef Column* columns = <Column*> calloc(width + 1, sizeof(Column))
    cdef PyObject* row
    if columns is NULL:
        raise MemoryError
    try:
        for k in range(width):
            _begin(&columns[k], kinds[k], count, held, words)
        for i in range(count):
            if i + FAR < count:
                row = PyList_GET_ITEM(rows, i + FAR)
                ask_to_read(<char*> row + 8)
                ask_to_read(<char*> row + 16 + 8 * width)
                row = PyList_GET_ITEM(rows, i + NEAR)
                if PyTuple_CheckExact(row) and PyTuple_GET_SIZE(row) == width:
                    for k in range(width):
                        ask_to_read(<char*> PyTuple_GET_ITEM(row, k) + 8)
                        if columns[k].kind >= TEXT:
                            ask_to_read(<char*> PyTuple_GET_ITEM(row, k) + HEADER)
            row = PyList_GET_ITEM(rows, i)
            if not PyTuple_CheckExact(row) or PyTuple_GET_SIZE(row) != width:
                return None
            for k in range(width):
                if columns[k].kind == NAME:
                    fits = _add_name(&columns[k], i, PyTuple_GET_ITEM(row, k), words, k)
                elif columns[k].kind == TEXT:
                    fits = _add_text(&columns[k], i, PyTuple_GET_ITEM(row, k), held, k)
                else:
                    fits = _add_number(&columns[k], i, PyTuple_GET_ITEM(row, k))
                if not fits:
                    return None
        for k in range(width):
            if columns[k].kind == TEXT:
                PyByteArray_Resize(held[k][1], columns[k].used)
        return [(held[k], words[k]) if kinds[k] == NAME else held[k] for k in range(width)]
    finally:
        for k in range(width):
            free(columns[k].slots)
        free(columns)


cdef int _begin(Column* column, unsigned char kind, Py_ssize_t count, list held, list words) except -1:
    cdef Py_ssize_t size = 4 * count if kind == NAME else 4 * (count + 1) if kind == TEXT else 8 * count
    values = PyByteArray_FromStringAndSize(NULL, size)
    column.kind = kind
    column.values = PyByteArray_AS_STRING(values)
    words.append([])
    if kind == TEXT:
        (<int32_t*> column.values)[0] = 0
        column.room = 16 * count + 16
        letters = PyByteArray_FromStringAndSize(NULL, column.room)
        column.letters = PyByteArray_AS_STRING(letters)
        held.append((values, letters))
        return 0
    held.append(values)
    if kind == NAME:
        column.mask = 4095
        column.slots = <Slot*> calloc(column.mask + 1, sizeof(Slot))
        if column.slots is NULL:
            raise MemoryError
    return 0


cdef inline bint _add_number(Column* column, Py_ssize_t i, PyObject* value) except -1:
    cdef long long whole
    cdef int overflow
    if column.kind == FLOAT:
        if not PyFloat_CheckExact(value):
            return False
        (<double*> column.values)[i] = PyFloat_AS_DOUBLE(value)
        return True
    if not PyLong_CheckExact(value):
        return False
    whole = PyLong_AsLongLongAndOverflow(value, &overflow)
    if column.kind == UNSIGNED:
        if overflow < 0 or whole < 0 and not overflow:
            return False
        if overflow:
            try:
                whole = <long long> PyLong_AsUnsignedLongLong(value)
            except OverflowError:
                return False
        (<int64_t*> column.values)[i] = whole
        return True
    (<int64_t*> column.values)[i] = whole
    return not overflow


cdef inline bint _add_text(Column* column, Py_ssize_t i, PyObject* value, list held, Py_ssize_t k) except -1:
    cdef const char* text
    cdef Py_ssize_t size
    if not PyUnicode_CheckExact(value):
        return False
    if PyUnicode_IS_COMPACT_ASCII(value):
        text = <const char*> PyUnicode_DATA(value)
        size = PyUnicode_GET_LENGTH(value)
    else:
        text = PyUnicode_AsUTF8AndSize(value, &size)
    if size > LARGEST - column.used:
        return False
    if column.used + size > column.room:
        column.room = 2 * column.room + size
        letters = held[k][1]
        PyByteArray_Resize(letters, column.room)
        column.letters = PyByteArray_AS_STRING(letters)
    memcpy(column.letters + column.used, text, size)
    column.used += size
    (<int32_t*> column.values)[i + 1] = <int32_t> column.used
    return True


cdef inline bint _add_name(Column* column, Py_ssize_t i, PyObject* value, list words, Py_ssize_t k) except -1:
    cdef Py_hash_t hash
    cdef size_t at
    cdef Slot* slot
    if not PyUnicode_CheckExact(value):
        return False
    hash = PyObject_Hash(value)
    at = <size_t> hash & column.mask
    while True:
        slot = &column.slots[at]
        if slot.text is NULL:
            break
        if slot.text is value or slot.hash == hash and _same(slot.text, value):
            (<uint32_t*> column.values)[i] = slot.code
            return True
        at = (at + 1) & column.mask
    slot.text = value
    slot.hash = hash
    slot.code = column.known
    (<uint32_t*> column.values)[i] = column.known
    column.known += 1
    words[k].append(<object> value)
    if 2 * <size_t> column.known > column.mask:
        _widen(column)
    return True


cdef inline bint _same(PyObject* one, PyObject* other) except -1:
    if PyUnicode_IS_COMPACT_ASCII(one) and PyUnicode_IS_COMPACT_ASCII(other):
        return PyUnicode_GET_LENGTH(one) == PyUnicode_GET_LENGTH(other) and not memcmp(
            PyUnicode_DATA(one), PyUnicode_DATA(other), PyUnicode_GET_LENGTH(one)
        )
    return <object> one == <object> other


cdef int _widen(Column* column) except -1:
    """Four times the slots, with the same names."""
    cdef size_t i, at, mask = 4 * column.mask + 3
    cdef Slot* slots = <Slot*> calloc(mask + 1, sizeof(Slot))
    if slots is NULL:
        raise MemoryError
    for i in range(column.mask + 1):
        if column.slots[i].text is not NULL:
            at = <size_t> column.slots[i].hash & mask
            while slots[at].text is not NULL:
                at = (at + 1) & mask
            slots[at] = column.slots[i]
    free(column.slots)
    column.slots = slots
    column.mask = mask
    return 0


def put_in_order(batch, Py_ssize_t k, order, found):
    """Column `k` of a list of tuples, put into an array of objects, in the order of an array of indices of 64 bits."""
    cdef list rows = checked(batch)
    cdef Py_ssize_t i, count = len(rows)
    cdef Py_buffer wanted, filled
    cdef int64_t* at
    cdef PyObject** into
    cdef PyObject* row
    cdef PyObject* value
    PyObject_GetBuffer(order, &wanted, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(found, &filled, PyBUF_ND | PyBUF_WRITABLE)
        try:
            if wanted.len != 8 * count or filled.len != <Py_ssize_t> sizeof(PyObject*) * count:
                raise ValueError("there is a place for every row, and a row for every place")
            at = <int64_t*> wanted.buf
            into = <PyObject**> filled.buf
            for i in range(count):
                if not 0 <= at[i] < count:
                    raise IndexError("there is no such row")
            for i in range(count):
                if i + 3 * NEAR < count:
                    ask_to_read(PyList_ADDRESS(rows, at[i + 3 * NEAR]))
                    row = PyList_GET_ITEM(rows, at[i + 2 * NEAR])
                    ask_to_read(<char*> row + 24 + 8 * k)
                    row = PyList_GET_ITEM(rows, at[i + NEAR])
                    if PyTuple_CheckExact(row) and k < PyTuple_GET_SIZE(row):
                        ask_for(PyTuple_GET_ITEM(row, k))
                row = PyList_GET_ITEM(rows, at[i])
                if not PyTuple_CheckExact(row) or not 0 <= k < PyTuple_GET_SIZE(row):
                    raise TypeError("a row is a tuple that has this column")
                value = PyTuple_GET_ITEM(row, k)
                Py_INCREF(<object> value)
                Py_XDECREF(into[i])
                into[i] = value
        finally:
            PyBuffer_Release(&filled)
    finally:
        PyBuffer_Release(&wanted)


def texts_in_order(ends, letters, order):
    """Texts, as `columns_of` gives them, in the order of an array of indices of 64 bits."""
    cdef Py_buffer wanted, given, written
    cdef Py_ssize_t i, count, used = 0
    cdef int64_t* at
    cdef int32_t* end
    cdef int32_t* new
    cdef char* into
    cdef char* text
    PyObject_GetBuffer(order, &wanted, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(ends, &given, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(letters, &written, PyBUF_SIMPLE)
            try:
                count = wanted.len // 8
                at, end, text = <int64_t*> wanted.buf, <int32_t*> given.buf, <char*> written.buf
                if given.len != 4 * (count + 1) or end[count] != written.len:
                    raise ValueError("there is a place for every text, and a text for every place")
                new_ends = PyByteArray_FromStringAndSize(NULL, given.len)
                new_letters = PyByteArray_FromStringAndSize(NULL, written.len)
                new, into = <int32_t*> PyByteArray_AS_STRING(new_ends), PyByteArray_AS_STRING(new_letters)
                new[0] = 0
                for i in range(count):
                    if not 0 <= at[i] < count:
                        raise IndexError("there is no such text")
                for i in range(count):
                    if i + FAR < count:
                        ask_to_read(&end[at[i + FAR]])
                        ask_to_read(text + end[at[i + NEAR]])
                    if end[at[i] + 1] - end[at[i]] > written.len - used:
                        raise ValueError("every text has one place")
                    memcpy(into + used, text + end[at[i]], end[at[i] + 1] - end[at[i]])
                    used += end[at[i] + 1] - end[at[i]]
                    new[i + 1] = <int32_t> used
                return new_ends, new_letters
            finally:
                PyBuffer_Release(&written)
        finally:
            PyBuffer_Release(&given)
    finally:
        PyBuffer_Release(&wanted)
