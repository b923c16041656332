# cython: language_level=3, boundscheck=False, wraparound=False
"""Facts, compiled: the table of `operators.facts` for batches, without waiting for the memory row by row.

A table of a million facts does not fit into a cache, and a fact is looked for in a place that nobody can foresee: a
dictionary spends most of its time waiting. Here a batch goes through the table in blocks. The places of a whole block
are asked for first and looked at afterwards, when they have arrived, all at about the same time.

The facts stand in pages, in the order in which they came; one that is taken out leaves a hole. Pages are not moved when
the table grows, and only those with a fact that is there more than once have multiplicities. The hash table over them
has slots with linear probing. In a slot are the position and the hash of a fact: others are told from it without a look
at the facts, and so it grows.

Facts are tuples of plain values, so that comparing two of them runs no code of anybody else, and no cycle goes through
them: the collector of cycles need not know of the table.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset
from operators.compiled.shared cimport Py_EQ, PyList_GET_ITEM, PyObject_RichCompareBool, ask_for, checked

cdef extern from "Python.h":
    Py_hash_t PyObject_Hash(PyObject* value) except? -1

cdef enum:
    BLOCK = 64
    BITS = 9
    PAGE = 512  # facts, 2 ** BITS
    LEAST = 16  # slots
    EMPTY = -1
    HOLE = -2

cdef struct Page:
    (PyObject*)[PAGE] rows  # NULL: a hole
    int64_t* counts  # NULL: all of them are there once

cdef struct Slot:
    uint32_t hash
    int32_t at  # the position of a fact, EMPTY, or HOLE where one was


cdef inline void* allocated(size_t size) except NULL:
    cdef void* memory = PyMem_Malloc(size)
    if memory == NULL:
        raise MemoryError()
    return memory


cdef inline uint32_t hash_of(PyObject* row) except? 0xFFFFFFFF:
    cdef uint64_t hash = <uint64_t> PyObject_Hash(row)
    return <uint32_t> (hash ^ (hash >> 32))


@cython.final
cdef class Note:
    """The way back from a batch; see `operators.facts`.

    Of one that is let in, `_first` is the position behind all that was there before; of one that is counted in, `_done`
    is how many of its rows are; of one that is taken out, `_out` says which of its rows are. Nothing can fail between a
    change of the table and that of the note.
    """

    cdef list _rows
    cdef Py_ssize_t _first
    cdef Py_ssize_t _done
    cdef char* _out

    def __cinit__(self):
        self._first = -1

    def __dealloc__(self):
        PyMem_Free(self._out)


@cython.final
cdef class Facts:
    """A mapping from facts to multiplicities, in the order in which the facts came; see `operators.facts`."""

    cdef Page** _pages
    cdef Py_ssize_t _listed  # pages that `_pages` has room for
    cdef Py_ssize_t _room  # facts that there are pages for
    cdef Py_ssize_t _end  # positions in use, with holes
    cdef Py_ssize_t _live  # without
    cdef Slot* _slots
    cdef Py_ssize_t _size  # slots: a power of two, half as many again as positions in use or more

    def __cinit__(self):
        self._spread(LEAST, NULL)

    def __dealloc__(self):
        cdef Py_ssize_t at
        for at in range(self._end):
            if self._row(at)[0] != NULL:
                Py_DECREF(<object> self._row(at)[0])
        self._free_pages(0)
        PyMem_Free(self._pages)
        PyMem_Free(self._slots)

    # --- memory ---

    cdef inline PyObject** _row(self, Py_ssize_t at) noexcept:
        return &self._pages[at >> BITS].rows[at & (PAGE - 1)]

    cdef inline int64_t _count(self, Py_ssize_t at) noexcept:
        cdef int64_t* counts = self._pages[at >> BITS].counts
        return 1 if counts == NULL else counts[at & (PAGE - 1)]

    cdef int _set_count(self, Py_ssize_t at, int64_t count) except -1:
        cdef Page* page = self._pages[at >> BITS]
        if page.counts == NULL:
            if count == 1:
                return 0
            self._add_counts(page)
        page.counts[at & (PAGE - 1)] = count
        return 0

    cdef int _add_counts(self, Page* page) except -1:
        cdef Py_ssize_t i
        page.counts = <int64_t*> allocated(PAGE * sizeof(int64_t))
        for i in range(PAGE):
            page.counts[i] = 1
        return 0

    cdef int _make_room(self, Py_ssize_t more) except -1:
        """From here on so many facts can be appended."""
        if self._end + more > self._room and self._end > 2 * self._live + PAGE:
            self._close_holes()
        if self._end + more > 1 << 30:
            raise MemoryError("a table holds at most 2**30 facts")
        while self._end + more > self._room:
            self._add_page()
        if 2 * self._size < 3 * (self._end + more):
            self._spread(2 * (self._end + more), NULL)
        return 0

    cdef int _add_page(self) except -1:
        cdef Py_ssize_t pages = self._room >> BITS
        cdef void* memory
        if pages == self._listed:
            memory = PyMem_Realloc(self._pages, (2 * pages + 1) * sizeof(Page*))
            if memory == NULL:
                raise MemoryError()
            self._pages = <Page**> memory
            self._listed = 2 * pages + 1
        self._pages[pages] = <Page*> allocated(sizeof(Page))
        self._pages[pages].counts = NULL
        self._room += PAGE
        return 0

    cdef void _free_pages(self, Py_ssize_t first) noexcept:
        cdef Py_ssize_t i
        for i in range(first, self._room >> BITS):
            PyMem_Free(self._pages[i].counts)
            PyMem_Free(self._pages[i])
        self._room = min(self._room, first << BITS)

    cdef int _spread(self, Py_ssize_t wanted, int32_t* moved) except -1:
        """Have so many slots; with `moved`, facts have got new positions.

        A slot goes to where it was or, in another half, quarter and so on, to the same place there. So memory is
        written in a few streams, one after the other.
        """
        cdef Py_ssize_t i, size = LEAST
        cdef Slot* old = self._slots
        cdef Slot* new
        cdef size_t place
        while size < wanted:
            size *= 2
        new = <Slot*> allocated(size * sizeof(Slot))
        memset(new, 0xFF, size * sizeof(Slot))  # EMPTY
        for i in range(self._size):
            if old[i].at >= 0:
                place = old[i].hash & (size - 1)
                while new[place].at != EMPTY:
                    place = (place + 1) & (size - 1)
                new[place].hash = old[i].hash
                new[place].at = old[i].at if moved == NULL else moved[old[i].at]
        PyMem_Free(old)
        self._slots = new
        self._size = size
        return 0

    cdef int _close_holes(self) except -1:
        cdef int32_t* moved = <int32_t*> allocated(self._end * sizeof(int32_t))
        cdef Py_ssize_t at, end = 0
        try:
            # first all that needs memory, and then, when nothing can fail any more, the change
            for at in range(self._end):
                moved[at] = <int32_t> end
                if self._row(at)[0] != NULL:
                    if self._count(at) != 1 and self._pages[end >> BITS].counts == NULL:
                        self._add_counts(self._pages[end >> BITS])
                    end += 1
            self._spread(2 * end, moved)
            end = 0
            for at in range(self._end):
                if self._row(at)[0] != NULL:
                    self._row(end)[0] = self._row(at)[0]
                    self._set_count(end, self._count(at))
                    end += 1
        finally:
            PyMem_Free(moved)
        self._end = end
        self._free_pages((end >> BITS) + 1)
        return 0

    # --- one fact ---

    cdef inline Py_ssize_t _find(self, PyObject* row, uint32_t hash) except -2:
        """The slot of a fact, or -1."""
        cdef size_t mask = self._size - 1, place = hash & mask
        cdef PyObject* known
        cdef int32_t at
        while True:
            at = self._slots[place].at
            if at == EMPTY:
                return -1
            if self._slots[place].hash == hash and at != HOLE:
                known = self._row(at)[0]
                if known == row or PyObject_RichCompareBool(known, row, Py_EQ):
                    return <Py_ssize_t> place
            place = (place + 1) & mask

    cdef inline Py_ssize_t _position(self, row) except -2:
        """The position of a fact, or -1."""
        cdef Py_ssize_t place = self._find(<PyObject*> row, hash_of(<PyObject*> row))
        return -1 if place < 0 else self._slots[place].at

    cdef inline int _append(self, PyObject* row, uint32_t hash) except -1:
        """A fact that is not there; there is room for it."""
        cdef size_t mask = self._size - 1, place = hash & mask
        while self._slots[place].at >= 0:
            place = (place + 1) & mask
        self._slots[place].hash = hash
        self._slots[place].at = <int32_t> self._end
        Py_INCREF(<object> row)
        self._row(self._end)[0] = row
        self._end += 1
        self._live += 1
        return self._set_count(self._end - 1, 1)

    cdef inline void _remove(self, Py_ssize_t place) noexcept:
        cdef PyObject** held = self._row(self._slots[place].at)
        cdef PyObject* row = held[0]
        self._slots[place].at = HOLE
        held[0] = NULL
        self._live -= 1
        Py_DECREF(<object> row)

    def __contains__(self, row):
        return self._position(row) >= 0

    def __getitem__(self, row):
        cdef Py_ssize_t at = self._position(row)
        if at < 0:
            raise KeyError(row)
        return self._count(at)

    def get(self, row, default=None):
        cdef Py_ssize_t at = self._position(row)
        return default if at < 0 else self._count(at)

    def __setitem__(self, row, int64_t count):
        cdef Py_ssize_t at = self._position(row)
        if at < 0:
            self._make_room(1)
            at = self._end
            self._append(<PyObject*> row, hash_of(<PyObject*> row))
        self._set_count(at, count)

    def __delitem__(self, row):
        cdef Py_ssize_t place = self._find(<PyObject*> row, hash_of(<PyObject*> row))
        if place < 0:
            raise KeyError(row)
        self._remove(place)

    # --- batches ---

    cdef inline int _ask(self, list rows, Py_ssize_t begin, Py_ssize_t end, uint32_t* hashes) except -1:
        """The hashes of some rows of a batch; let their slots come."""
        cdef Py_ssize_t i
        for i in range(begin, end):
            hashes[i - begin] = hash_of(PyList_GET_ITEM(rows, i))
            ask_for(&self._slots[hashes[i - begin] & (self._size - 1)])
        return 0

    cdef inline void _ask_facts(self, uint32_t* hashes, Py_ssize_t n) noexcept:
        """Let come what most of these slots lead to."""
        cdef Py_ssize_t i
        cdef Slot* slot
        for i in range(n):
            slot = &self._slots[hashes[i] & (self._size - 1)]
            if slot.at >= 0:
                ask_for(self._row(slot.at))

    def note(self):
        return Note()

    def revert(self, Note note):
        cdef Py_ssize_t i, at, place
        cdef PyObject* row
        if note._first >= 0:
            for at in range(note._first, self._end):
                row = self._row(at)[0]
                if row != NULL:
                    self._remove(self._find(row, hash_of(row)))
        while note._done:
            row = PyList_GET_ITEM(note._rows, note._done - 1)
            self._take_copy(self._find(row, hash_of(row)))
            note._done -= 1
        if note._out != NULL:
            for i in range(len(note._rows)):
                if note._out[i]:
                    row = PyList_GET_ITEM(note._rows, i)
                    self._make_room(1)
                    self._add_copy(row, hash_of(row))
                    note._out[i] = 0

    cdef inline int _add_copy(self, PyObject* row, uint32_t hash) except -1:
        """One copy more; there is room for it."""
        cdef Py_ssize_t place = self._find(row, hash)
        if place < 0:
            return self._append(row, hash)
        return self._set_count(self._slots[place].at, self._count(self._slots[place].at) + 1)

    cdef inline void _take_copy(self, Py_ssize_t place) noexcept:
        """One copy less of what is there; where there are several, their page has counts."""
        cdef Py_ssize_t at = self._slots[place].at
        if self._count(at) > 1:
            self._pages[at >> BITS].counts[at & (PAGE - 1)] -= 1
        else:
            self._remove(place)

    def let_in(self, batch, Note note=None):
        cdef list rows = checked(batch)
        cdef Py_ssize_t begin, end, i, n = len(rows)
        cdef uint32_t[BLOCK] hashes
        cdef PyObject* row
        cdef list came = None  # as long as all of them are new, it is the batch
        self._make_room(n)
        if note is not None:
            note._first = self._end
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            self._ask(rows, begin, end, hashes)
            for i in range(begin, end):
                row = PyList_GET_ITEM(rows, i)
                if self._find(row, hashes[i - begin]) >= 0:
                    if came is None:
                        came = rows[:i]
                else:
                    self._append(row, hashes[i - begin])
                    if came is not None:
                        came.append(<object> row)
        return rows if came is None else came

    def count_in(self, batch, Note note=None):
        cdef list rows = checked(batch)
        cdef Py_ssize_t begin, end, i, n = len(rows)
        cdef uint32_t[BLOCK] hashes
        if note is not None:
            note._rows = rows
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            self._make_room(end - begin)  # not for all: many copies may be of few facts
            self._ask(rows, begin, end, hashes)
            for i in range(begin, end):
                self._add_copy(PyList_GET_ITEM(rows, i), hashes[i - begin])
                if note is not None:
                    note._done += 1

    def take_out(self, batch, came, Note note=None):
        cdef list rows = checked(batch), news = checked(came)
        cdef Py_ssize_t begin, end, i, place, at, n = len(rows), first = self._end
        cdef uint32_t[BLOCK] hashes
        cdef PyObject* row
        cdef list out = None  # as long as all of them are there, it is the batch
        cdef list recalled = []
        if note is not None:
            note._out = <char*> allocated(n + 1)
            memset(note._out, 0, n + 1)
            note._rows = rows
        if news:
            first = max(0, self._position(news[0]))  # all that came with it stand behind it
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            self._ask(rows, begin, end, hashes)
            self._ask_facts(hashes, end - begin)
            for i in range(begin, end):
                row = PyList_GET_ITEM(rows, i)
                place = self._find(row, hashes[i - begin])
                if place < 0:
                    if out is None:
                        out = rows[:i]
                    continue
                at = self._slots[place].at
                if at >= first:
                    recalled.append(<object> row)
                self._take_copy(place)
                if note is not None:
                    note._out[i] = 1
                if out is not None:
                    out.append(<object> row)
        return (rows if out is None else out), recalled

    # --- all of them ---

    def __len__(self):
        return self._live

    def __iter__(self):
        return iter(self.keys())

    def keys(self):
        cdef Py_ssize_t at
        return [<object> self._row(at)[0] for at in range(self._end) if self._row(at)[0] != NULL]

    def values(self):
        cdef Py_ssize_t at
        return [self._count(at) for at in range(self._end) if self._row(at)[0] != NULL]

    def items(self):
        return list(zip(self.keys(), self.values()))

    def __eq__(self, other):
        return dict(self.items()) == other

    def __repr__(self):
        return repr(dict(self.items()))

    def __sizeof__(self):
        cdef Py_ssize_t i, size = object.__sizeof__(self) + self._listed * sizeof(Page*) + self._size * sizeof(Slot)
        for i in range(self._room >> BITS):
            size += sizeof(Page) + (0 if self._pages[i].counts == NULL else PAGE * sizeof(int64_t))
        return size
