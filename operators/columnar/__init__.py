"""A lineage join of whole numbers, as columns: for batches of thousands of rows.

The join `q(a, avg<d>) :- s1(a, b), s2(b, d)` keeps three things, all by number: for each key `b` the sums of `s2`, a
vector V; for each pair of a key and a group `a` the number of rows of `s1`, a sparse matrix A; and for each group the
sums that its head is made of, S = A'V. A change of either side is a product with the change alone: of A it contributes
dA'V, and of V, with the new A, A'dV. Large batches are worked in by numpy, small ones by plain loops over the same
columns.
"""
