# cython: language_level=3
"""Loops over cells, compiled: what `operators.tally` and `operators.anchored_loops` add to the sums of groups.

Cells are instances of the classes of `operators.cells`, whose attributes lie where the descriptors of their slots say.
They are found in blocks, and those of a block asked for before the first is looked at: see `facts.pyx`.
"""

from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next, PyDict_SetItem
from cpython.list cimport PyList_Append
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from operators.compiled.shared cimport (
    Py_EQ,
    PyList_GET_ITEM,
    PyLong_AsLongLongAndOverflow,
    PyLong_CheckExact,
    PyObject_RichCompareBool,
    PyTuple_GET_ITEM,
    ask_for,
    checked,
)

cdef extern from "Python.h":
    PyObject* Py_True

    ctypedef struct PyMemberDef:
        Py_ssize_t offset

    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member

    ctypedef struct PyTypeObject:
        object (*tp_alloc)(type kind, Py_ssize_t items)

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define add_overflows(a, b, sum) __builtin_add_overflow(a, b, sum)
    #else
    static int add_overflows(long long a, long long b, long long *sum) {
        if ((b > 0 && a > LLONG_MAX - b) || (b < 0 && a < LLONG_MIN - b)) return 1;
        *sum = a + b;
        return 0;
    }
    #endif
    """
    bint add_overflows(long long a, long long b, long long* sum)

cdef enum:
    BLOCK = 64
    WIDEST = 16  # sums of a cell

WIDTH = WIDEST


cdef inline PyObject** at(PyObject* cell, Py_ssize_t offset) noexcept:
    return <PyObject**> (<char*> cell + offset)


cdef inline void put(PyObject** place, value) noexcept:
    cdef PyObject* old = place[0]
    Py_INCREF(value)
    place[0] = <PyObject*> value
    Py_XDECREF(old)


cdef dict offsets_of(type make):
    """Where the attributes of the cells of a class are."""
    return {
        name: (<PyMemberDescrObject*> <PyObject*> make.__dict__[name]).d_member.offset for name in make.__slots__
    }


cdef inline int touch(PyObject* cell, Py_ssize_t calm, list touched) except -1:
    """Note that a cell changes."""
    cdef PyObject** place = at(cell, calm)
    if place[0] == Py_True:
        put(place, False)
        PyList_Append(touched, <object> cell)
    return 0


cdef class Spreader:
    """Adds the same amount to a sum of many cells that `make` made."""

    cdef Py_ssize_t _calm
    cdef Py_ssize_t[WIDEST] _sums

    def __init__(self, type make):
        cdef dict offsets = offsets_of(make)
        self._calm = offsets["calm"]
        for i in range(WIDEST):
            self._sums[i] = offsets.get(f"s{i}", -1)

    def add(self, dict cells not None, int number, amount, list touched not None):
        """Add to sum `number` of those cells that are the keys of a dict."""
        cdef (PyObject*)[BLOCK] block
        cdef Py_ssize_t i, n = BLOCK, place = 0, offset = self._sums[number] if 0 <= number < WIDEST else -1
        cdef PyObject* cell
        if offset < 0:
            raise IndexError("cells have no such sum")
        while n == BLOCK:
            n = 0
            while n < BLOCK and PyDict_Next(cells, &place, &cell, NULL):
                ask_for(cell)
                ask_for(at(cell, offset))
                block[n] = cell
                n += 1
            for i in range(n):
                ask_for(at(block[i], offset)[0])
            for i in range(n):
                touch(block[i], self._calm, touched)
                put(at(block[i], offset), <object> at(block[i], offset)[0] + amount)


cdef class Adder:
    """Adds rows to cells that `make` makes, for groups of the columns `key`.

    To sum i of a cell a row adds its column `amounts[i]`, or 1 where that is negative. Rows of a group that follow each
    other are added up as machine numbers first. What does not fit into them is added as the Python number that it is.
    """

    cdef type _make
    cdef object _pattern  # a cell as it is when it is new
    cdef Py_ssize_t[WIDEST + 8] _offsets  # of all that a new cell has
    cdef Py_ssize_t _slots
    cdef Py_ssize_t _row, _calm, _width
    cdef Py_ssize_t[WIDEST] _sums
    cdef Py_ssize_t[WIDEST] _amounts
    cdef tuple _key
    cdef Py_ssize_t _column  # that of the key, if there is one alone

    def __init__(self, type make, tuple key, tuple amounts):
        self._make = make
        self._pattern = make(None)
        self._key = key
        self._column = key[0] if len(key) == 1 else -1
        self._width = len(amounts)
        if self._width > WIDEST:
            raise ValueError("too many sums")
        offsets = offsets_of(make)
        for name, offset in offsets.items():
            if hasattr(self._pattern, name):
                self._offsets[self._slots] = offset
                self._slots += 1
        self._row, self._calm = offsets["row"], offsets["calm"]
        for i, column in enumerate(amounts):
            self._sums[i] = offsets[f"s{i}"]
            self._amounts[i] = column

    cdef object _new(self, row):
        """A new cell: a copy of the pattern."""
        cdef Py_ssize_t i
        cell = (<PyTypeObject*> self._make).tp_alloc(self._make, 0)
        for i in range(self._slots):
            put(at(<PyObject*> cell, self._offsets[i]), <object> at(<PyObject*> self._pattern, self._offsets[i])[0])
        put(at(<PyObject*> cell, self._row), row)
        return cell

    cdef PyObject* _cell(self, dict rows, key) except NULL:
        """The cell of a group; it belongs to `rows`."""
        cdef PyObject* found = PyDict_GetItemWithError(rows, key)
        if found == NULL:
            cell = self._new((key,) if self._column >= 0 else () if key is None else key)
            PyDict_SetItem(rows, key, cell)
            found = <PyObject*> cell
        return found

    cdef int _find(self, list batch, Py_ssize_t begin, Py_ssize_t end, dict rows, PyObject** cells) except -1:
        """The cells of some rows of a batch; NULL: the same as the row before. Let what is in them come."""
        cdef Py_ssize_t i, k
        cdef PyObject* row
        cdef PyObject* key
        cdef PyObject* last = NULL
        for i in range(begin, end):
            row = PyList_GET_ITEM(batch, i)
            cells[i - begin] = NULL
            if not self._key:
                if i == begin:
                    cells[0] = self._cell(rows, None)
            elif self._column < 0:
                cells[i - begin] = self._cell(rows, tuple([<object> PyTuple_GET_ITEM(row, k) for k in self._key]))
            else:
                key = PyTuple_GET_ITEM(row, self._column)
                if last == NULL or (key != last and not PyObject_RichCompareBool(key, last, Py_EQ)):
                    cells[i - begin] = self._cell(rows, <object> key)
                last = key
            if cells[i - begin] != NULL:
                ask_for(cells[i - begin])
                ask_for(at(cells[i - begin], self._sums[self._width - 1]))
        for i in range(end - begin):
            if cells[i] != NULL:
                for k in range(1, self._width):
                    ask_for(at(cells[i], self._sums[k])[0])
        return 0

    cdef int _settle(self, PyObject* cell, bint lost, long long* sums) except -1:
        cdef Py_ssize_t i
        cdef PyObject** place
        for i in range(self._width):
            if sums[i]:
                place = at(cell, self._sums[i])
                value = <object> place[0]
                put(place, value - sums[i] if lost else value + sums[i])
                sums[i] = 0
        return 0

    def __call__(self, batch, dict rows not None, list touched not None, bint lost):
        """Add tuples that came, or subtract those that were `lost`."""
        cdef list values = checked(batch)
        cdef Py_ssize_t begin, end, i, k
        cdef (PyObject*)[BLOCK] cells
        cdef PyObject* row
        cdef PyObject* amount
        cdef PyObject* cell = NULL
        cdef PyObject** place
        cdef long long[WIDEST] sums  # what the rows of this cell add up to
        cdef long long whole, total
        cdef int overflow
        for k in range(self._width):
            sums[k] = 0
        for begin in range(0, len(values), BLOCK):
            end = min(begin + BLOCK, len(values))
            self._find(values, begin, end, rows, cells)
            for i in range(begin, end):
                row = PyList_GET_ITEM(values, i)
                if cells[i - begin] != NULL:
                    if cell != NULL:
                        self._settle(cell, lost, sums)
                    cell = cells[i - begin]
                    touch(cell, self._calm, touched)
                for k in range(self._width):
                    if self._amounts[k] < 0:
                        sums[k] += 1
                        continue
                    amount = PyTuple_GET_ITEM(row, self._amounts[k])
                    overflow = 1
                    if PyLong_CheckExact(amount):
                        whole = PyLong_AsLongLongAndOverflow(amount, &overflow)
                    if not overflow and not add_overflows(sums[k], whole, &total):
                        sums[k] = total
                    else:
                        place = at(cell, self._sums[k])
                        value = <object> place[0]
                        put(place, value - <object> amount if lost else value + <object> amount)
        if cell != NULL:
            self._settle(cell, lost, sums)
