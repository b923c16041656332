# cython: language_level=3, boundscheck=False, wraparound=False
"""Facts, compiled: the table of `operators.facts` for batches, without waiting for the memory row by row.

A table of a million facts does not fit into a cache, and a fact is looked for in a place that nobody can foresee: a
dictionary spends most of its time waiting. Here a batch goes through the table in blocks. The places of a whole block
are asked for first and looked at afterwards, when they have arrived, all at about the same time.

`_entries` has the facts in the order in which they came, with their hashes and multiplicities; a fact that is taken out
leaves a hole. `_slots` is a hash table with linear probing whose slots are positions in `_entries`. Facts are tuples of
plain values, so that comparing two of them runs no code of anybody else, and no cycle goes through them: the collector
of cycles need not know of the table.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.string cimport memset

cdef extern from "Python.h":
    Py_hash_t PyObject_Hash(PyObject* value) except? -1
    bint PyObject_RichCompareBool(PyObject* one, PyObject* other, int how) except -1
    PyObject* PyList_GET_ITEM(list values, Py_ssize_t i)
    int Py_EQ

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define ask_for(address) __builtin_prefetch(address, 1)
    #else
    #define ask_for(address) ((void)0)
    #endif
    """
    void ask_for(void* address) nogil

cdef enum:
    BLOCK = 64
    EMPTY = -1
    HOLE = -2
    LEAST = 8  # facts that a table has room for at least

cdef struct Entry:
    PyObject* row  # NULL: a hole
    Py_hash_t hash
    long long count


cdef inline list checked(batch):
    """A batch as the list that it is; it may be of a subclass."""
    if not isinstance(batch, list):
        raise TypeError("a batch is a list")
    return <list> batch


@cython.final
cdef class Facts:
    """A mapping from facts to multiplicities, in the order in which the facts came; see `operators.facts`."""

    cdef Entry* _entries
    cdef int* _slots
    cdef Py_ssize_t _room  # entries that there is memory for; there are at least twice as many slots
    cdef Py_ssize_t _end  # entries in use, with holes
    cdef Py_ssize_t _live  # without
    cdef size_t _mask

    def __cinit__(self):
        self._rebuild(LEAST)

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self._end):
            if self._entries[i].row != NULL:
                Py_DECREF(<object> self._entries[i].row)
        PyMem_Free(self._entries)
        PyMem_Free(self._slots)

    # --- one fact ---

    cdef inline Py_ssize_t _find(self, PyObject* row, Py_hash_t hash) except -2:
        """The slot of a fact, or -1."""
        cdef size_t slot = <size_t> hash & self._mask
        cdef Entry* entry
        cdef int at
        while True:
            at = self._slots[slot]
            if at == EMPTY:
                return -1
            if at != HOLE:
                entry = &self._entries[at]
                if entry.hash == hash and (entry.row == row or PyObject_RichCompareBool(entry.row, row, Py_EQ)):
                    return <Py_ssize_t> slot
            slot = (slot + 1) & self._mask

    cdef inline Entry* _entry(self, PyObject* row) except? NULL:
        cdef Py_ssize_t slot = self._find(row, PyObject_Hash(row))
        return NULL if slot < 0 else &self._entries[self._slots[slot]]

    cdef inline void _append(self, PyObject* row, Py_hash_t hash, long long count) noexcept:
        """A fact that is not there; there is room for it."""
        cdef size_t slot = <size_t> hash & self._mask
        while self._slots[slot] >= 0:
            slot = (slot + 1) & self._mask
        self._slots[slot] = <int> self._end
        Py_INCREF(<object> row)
        self._entries[self._end] = Entry(row, hash, count)
        self._end += 1
        self._live += 1

    cdef inline void _remove(self, Py_ssize_t slot) noexcept:
        cdef Entry* entry = &self._entries[self._slots[slot]]
        cdef PyObject* row = entry.row
        self._slots[slot] = HOLE
        entry.row = NULL
        self._live -= 1
        Py_DECREF(<object> row)

    cdef int _make_room(self, Py_ssize_t more) except -1:
        if self._end + more > self._room:
            self._rebuild(max(LEAST, self._live + max(more, self._live)))
        return 0

    cdef int _rebuild(self, Py_ssize_t room) except -1:
        """Close the holes, and have room for so many facts."""
        cdef Py_ssize_t i, end = 0, slots = 2 * LEAST
        cdef size_t slot
        cdef void* memory
        if room > 2 ** 30:
            raise MemoryError("a table holds at most 2**30 facts")
        while slots < 2 * room:
            slots *= 2
        memory = PyMem_Malloc(slots * sizeof(int))
        if memory == NULL:
            raise MemoryError()
        PyMem_Free(self._slots)
        self._slots = <int*> memory
        self._mask = slots - 1
        memset(self._slots, 0xFF, slots * sizeof(int))  # EMPTY
        for i in range(self._end):
            if self._entries[i].row != NULL:
                self._entries[end] = self._entries[i]
                slot = <size_t> self._entries[end].hash & self._mask
                while self._slots[slot] != EMPTY:
                    slot = (slot + 1) & self._mask
                self._slots[slot] = <int> end
                end += 1
        self._end = end
        memory = PyMem_Realloc(self._entries, room * sizeof(Entry))
        if memory == NULL:
            self._room = 0 if self._entries == NULL else end  # all is as it was, and nothing more fits
            raise MemoryError()
        self._entries = <Entry*> memory
        self._room = room
        return 0

    def __contains__(self, row):
        return self._entry(<PyObject*> row) != NULL

    def __getitem__(self, row):
        cdef Entry* entry = self._entry(<PyObject*> row)
        if entry == NULL:
            raise KeyError(row)
        return entry.count

    def get(self, row, default=None):
        cdef Entry* entry = self._entry(<PyObject*> row)
        return default if entry == NULL else entry.count

    def __setitem__(self, row, long long count):
        cdef Py_hash_t hash = PyObject_Hash(<PyObject*> row)
        cdef Py_ssize_t slot = self._find(<PyObject*> row, hash)
        if slot < 0:
            self._make_room(1)
            self._append(<PyObject*> row, hash, count)
        else:
            self._entries[self._slots[slot]].count = count

    def __delitem__(self, row):
        cdef Py_ssize_t slot = self._find(<PyObject*> row, PyObject_Hash(<PyObject*> row))
        if slot < 0:
            raise KeyError(row)
        self._remove(slot)

    # --- batches ---

    cdef inline void _ask(self, list rows, Py_ssize_t begin, Py_ssize_t end, Py_hash_t* hashes) except *:
        """Let what is needed for some rows of a batch come, and have their hashes."""
        cdef Py_ssize_t i
        cdef int at
        for i in range(begin, end):
            hashes[i - begin] = PyObject_Hash(PyList_GET_ITEM(rows, i))
            ask_for(&self._slots[<size_t> hashes[i - begin] & self._mask])
        for i in range(end - begin):
            at = self._slots[<size_t> hashes[i] & self._mask]
            if at >= 0:
                ask_for(&self._entries[at])

    def let_in(self, batch):
        cdef list rows = checked(batch)
        cdef Py_ssize_t begin, end, i, n = len(rows)
        cdef Py_hash_t[BLOCK] hashes
        cdef PyObject* row
        cdef list came = None  # as long as all of them are new, it is the batch
        self._make_room(n)
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            self._ask(rows, begin, end, hashes)
            for i in range(begin, end):
                row = PyList_GET_ITEM(rows, i)
                if self._find(row, hashes[i - begin]) >= 0:
                    if came is None:
                        came = rows[:i]
                else:
                    self._append(row, hashes[i - begin], 1)
                    if came is not None:
                        came.append(<object> row)
        return rows if came is None else came

    def count_in(self, batch):
        cdef list rows = checked(batch)
        cdef Py_ssize_t begin, end, i, slot, n = len(rows)
        cdef Py_hash_t[BLOCK] hashes
        cdef PyObject* row
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            self._make_room(BLOCK)  # not for all: many copies may be of few facts
            self._ask(rows, begin, end, hashes)
            for i in range(begin, end):
                row = PyList_GET_ITEM(rows, i)
                slot = self._find(row, hashes[i - begin])
                if slot >= 0:
                    self._entries[self._slots[slot]].count += 1
                else:
                    self._append(row, hashes[i - begin], 1)

    def take_out(self, batch, came):
        cdef list rows = checked(batch), news = checked(came)
        cdef Py_ssize_t begin, end, i, slot, n = len(rows), first = self._end
        cdef Py_hash_t[BLOCK] hashes
        cdef PyObject* row
        cdef Entry* entry
        cdef list out = None  # as long as all of them are there, it is the batch
        cdef list recalled = []
        if news:
            slot = self._find(PyList_GET_ITEM(news, 0), PyObject_Hash(PyList_GET_ITEM(news, 0)))
            first = 0 if slot < 0 else self._slots[slot]
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            self._ask(rows, begin, end, hashes)
            for i in range(begin, end):
                row = PyList_GET_ITEM(rows, i)
                slot = self._find(row, hashes[i - begin])
                if slot < 0:
                    if out is None:
                        out = rows[:i]
                    continue
                if self._slots[slot] >= first:
                    recalled.append(<object> row)
                entry = &self._entries[self._slots[slot]]
                if entry.count > 1:
                    entry.count -= 1
                else:
                    self._remove(slot)
                if out is not None:
                    out.append(<object> row)
        return (rows if out is None else out), recalled

    # --- all of them ---

    def __len__(self):
        return self._live

    def __iter__(self):
        return iter(self.keys())

    def keys(self):
        cdef Py_ssize_t i
        return [<object> self._entries[i].row for i in range(self._end) if self._entries[i].row != NULL]

    def values(self):
        cdef Py_ssize_t i
        return [self._entries[i].count for i in range(self._end) if self._entries[i].row != NULL]

    def items(self):
        return list(zip(self.keys(), self.values()))

    def __eq__(self, other):
        return dict(self.items()) == other

    def __repr__(self):
        return repr(dict(self.items()))

    def __sizeof__(self):
        return object.__sizeof__(self) + self._room * sizeof(Entry) + (self._mask + 1) * sizeof(int)
