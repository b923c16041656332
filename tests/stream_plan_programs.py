"""Programs with times that the planner treats in different ways, by what they are about.

All of them are over the relations of `BASE`. There is one `.output` at least where views of points are to be left out.
"""

from __future__ import annotations

BASE = """
.decl s(x: number, v: number) stream
.decl k(x: number, v: number) key(x)
.decl e(t: number)
.decl d(x: number, t: number)
.decl l(x: number, y: number)
"""

PROGRAMS: dict[str, str] = {
    "clock alone": """
        two(t) :- clock(t), t % 2 = 0.
        odd(t) :- clock(t), !two(t), t > 3.
        some(t) :- two(t), t % 3 = 0.  some(t) :- odd(t), k = t % 5, k = 0.
        r(x, v) :- k(x, v) at some.
        q(x, v) :- k(x, v) at odd, v > 1.""",
    "what cannot be written as progressions": """
        low(t) :- clock(t), t % 7 < 3, t * t % 5 != 1.
        rest(t) :- clock(t), !low(t), t / 3 * 3 = t.
        r(x, v) :- k(x, v) at low.
        q(x, v) :- k(x, v) at rest.""",
    "points and events": """
        mix(t) :- clock(t), t % 5 = 0.
        mix(t) :- e(t).
        both(t) :- mix(t), d(_, t).
        coarse(t) :- mix(t), t % 2 = 0.
        .output r
        .output q
        .output p
        r(x, v) :- k(x, v) at mix.
        q(x, v) :- k(x, v) at both.
        p(x, v) :- k(x, v) at coarse.""",
    "points and events, seen": """
        mix(t) :- clock(t), t % 5 = 0.
        mix(t) :- e(t).
        .output mix
        .output r
        r(x) :- d(x, t), mix(t).""",
    "facts among points": """
        two(t) :- clock(t), t % 4 = 0.
        two(7). two(9).
        .output r
        .output q
        r(x, v) :- k(x, v) at two.
        q(x) :- s(x, _)@t, two(t).""",
    "tests of times that have passed": """
        two(t) :- clock(t), t % 2 = 0.
        r(x, t) :- s(x, _)@t, two(t).
        q(x, t) :- s(x, _)@t, !two(t).
        p(x, t) :- k(x, _)@t, clock(t), !two(t).
        u(x) :- r(x, t), t % 3 = 0, clock(t).
        c(x, n) :- k(x, _), n = count : { s(x, _)@t, !two(t) }.
        h(x, count<*>) :- s(x, _)@t, two(t).""",
    "tests of times that may come": """
        two(t) :- clock(t), t % 2 = 0.
        r(x, t) :- d(x, t), two(t).
        q(x, t) :- d(x, t), !two(t).
        p(x, t) :- d(x, t), !two(t), clock(t).
        o(x, t) :- d(x, y), t = y + 1, two(t).
        c(x, n) :- k(x, _), n = count : { d(x, t), !two(t) }.
        b(x, n) :- k(x, _), n = count : { d(x, t), two(t) }.
        h(x, count<*>) :- d(x, t), two(t).
        g(x, count<*>) :- d(x, t), !two(t).""",
    "tests of points and events": """
        mix(t) :- clock(t), t % 3 = 0.
        mix(t) :- e(t).
        .output r
        .output q
        .output p
        r(x, t) :- d(x, t), mix(t).
        q(x, t) :- d(x, t), !mix(t).
        p(x) :- s(x, _)@t, mix(t), v = t % 2, v = 0.""",
    "points and events in aggregates": """
        mix(t) :- clock(t), t % 3 = 0.
        mix(t) :- e(t).
        .output r
        .output q
        .output p
        .output o
        r(x, n) :- k(x, _), n = count : { d(x, t), mix(t) }.
        q(x, n) :- k(x, _), n = count : { d(x, t), !mix(t) }.
        p(x, count<*>) :- d(x, t), mix(t).
        o(max<t>) :- mix(t).""",
    "points as data": """
        two(t) :- clock(t), t % 2 = 0.
        r(t, x) :- two(t), d(x, y), t < y.
        q(t, u) :- two(t), u = t + 1, clock(u).
        n(count<*>) :- two(t), t > 2.
        m(x) :- e(x), two(_).
        o(x) :- e(x), !two(_).
        a(c) :- c = count : { two(_) }.""",
    "single points": """
        r(x) :- k(x, _), clock(3).
        q(x) :- k(x, _), !clock(6).
        five(t) :- clock(t), t = 5.
        p(x, v) :- k(x, v) at five.
        o(x) :- d(x, _), five(5).
        m(x) :- d(x, t), five(t + 1).""",
    "views of points that are seen": """
        two(t) :- clock(t), t % 2 = 0.
        four(t) :- two(t), t % 4 = 0.
        .output two
        .output r
        r(x, v) :- k(x, v) at four.""",
    "points of points": """
        v(t) :- clock(t), t = 1.
        v(t) :- v(u), t = u + 3, t < 20.
        r(x, v) :- k(x, v) at v.
        w(t) :- s(_, _)@u, t = u + 2.
        q(x, v) :- k(x, v) at w.""",
    "last points": """
        two(t) :- clock(t), t % 2 = 0.
        last(max<t>) :- two(t).
        late(n) :- n = max t : { two(t), t % 3 = 0 }.
        seen(max<t>) :- clock(t).
        r(x) :- s(x, _)@t, last(n), n - 4 < t, t <= n.
        q(x) :- s(x, _)@t, late(n), t + 6 > n.
        p(x, n) :- s(x, _)@t, last(n), t + 2 > n.
        o(x) :- s(x, _)@t, seen(n), n - 2 <= t.
        u(x, c) :- k(x, _), late(n), c = count : { s(x, _)@t, n - 4 < t, t <= n }.
        w(x) :- s(x, _)@t, n = max u : { two(u), u > 4 }, t >= n - 3, t <= n.""",
    "views of the last point": """
        two(t) :- clock(t), t % 2 = 0.
        pair(1, max<t>) :- two(t).
        again(t, 7) :- pair(_, t).
        here(2, n) :- now(n).
        .output r
        .output q
        .output p
        .output o
        .output m
        r(x) :- s(x, _)@t, pair(_, n), n - 4 < t, t <= n.
        q(x) :- s(x, _)@t, again(n, 7), n - 3 < t.
        p(x) :- s(x, _)@t, again(n, x), n - 3 < t.
        o(x, i) :- s(x, _)@t, here(i, n), n - 3 < t.
        m(x) :- s(x, _)@t, here(_, n), n - 5 < t, !again(n, _).""",
    "windows": """
        r(x, v) :- s(x, v)@t, now(n), n - 5 < t, t <= n.
        q(x, count<*>) :- s(x, _)@t, now(n), lo = n - 3, lo < t.
        p(x, v) :- d(x, t), k(x, v), now(n), t <= n, n < t + v.
        o(x, v) :- d(x, t), now(n), n - t < 3, v = t - 1.
        m(x) :- s(x, v)@t, now(n), n < t + v.
        u(x) :- s(x, _)@t, now(n), t = n.
        w(x) :- s(x, _)@t, now(n), n >= t + 2, n <= t + 4.
        y(x, z) :- s(x, _)@t, s(z, _)@u, now(n), n - 3 < t, n - 2 < u, t < u.""",
    "windows by columns": """
        r(x) :- d(x, t), now(n), t - 2 <= n, n <= t.
        q(x) :- d(x, t), now(n), t - x < n, n < t + x * 2.
        p(x) :- d(x, t), now(n), n > t - t % 4, n < max(t, 5).""",
    "tumbling windows": """
        r(x) :- s(x, _)@t, now(n), n - n % 4 <= t, t < n - n % 4 + 4.
        q(x) :- s(x, _)@t, now(n), n - n % 3 = t - t % 3.
        p(x) :- s(x, _)@t, now(n), n - n % 5 > t.
        o(x) :- s(x, _)@t, now(n), n - n % 5 - 5 <= t, t < n - n % 5.""",
    "tuples that meet the clock": """
        r(x) :- d(x, t), now(t).
        q(x, n) :- d(x, n), now(n), n > 3.
        p(x) :- d(x, n), e(n), now(n).
        o(x, c) :- k(x, _), now(n), c = count : { d(x, n) }.
        two(t) :- clock(t), t % 2 = 0.  last(max<t>) :- two(t).
        m(x) :- d(x, n), last(n).
        u(x) :- d(x, n), last(n), s(x, _)@t, t < n.
        w(x) :- k(x, _), last(n), 0 = count : { d(x, n) }.""",
    "windows inside": """
        r(x, c) :- k(x, _), now(n), c = count : { s(x, _)@t, n - 3 < t }.
        q(x, c) :- k(x, _), c = sum v : { s(x, v)@t, now(n), n - 4 <= t }.
        p(x) :- k(x, v), v < max w : { s(_, w)@t, now(n), t + 2 >= n }.
        o(x) :- k(x, _), !recent(x).
        recent(x) :- s(x, _)@t, now(n), n < t + 3.
        m(x, c, n) :- k(x, _), now(n), c = count : { s(x, _)@t, n - 3 < t }.""",
    "what is not solved": """
        r(x) :- s(x, v)@t, now(n), n * 2 < t + 9.
        q(x) :- s(x, _)@t, k(x, v), now(n), n - v < t.
        p(x) :- k(x, _), now(n), n > 6.
        o(x) :- d(x, t), now(t).
        m(x) :- k(x, _), now(n), !e(n).
        u(n, m) :- now(n), m = n + 1.
        w(x, n) :- d(x, _), now(n), e(n).""",
    "windows and recursion": """
        r(x, y) :- l(x, y)@t, now(n), n - 6 < t.
        r(x, z) :- r(x, y), l(y, z)@t, now(n), n - 6 < t.
        p(x, t) :- s(x, _)@t.
        p(y, t) :- p(x, t), l(x, y), now(n), n - 4 < t.""",
    "reads with times": """
        r(x, t) :- k(x, _)@t.
        h(x) :- k(x, v) at every(3), v > 0.
        q(x, t) :- h(x)@t.
        p(x, t, u) :- h(x)@t at every(2), k(x, _)@u at every(4, from=1).
        o(x) :- k(x, _)@t at every(2), now(n), n < t + 4.""",
    "different points in one rule": """
        two(t) :- clock(t), t % 2 = 0.
        hot(t) :- s(_, v)@t, v > 2.
        r(x, v, w) :- k(x, v) at two, s(x, w) at hot.
        q(x, z) :- l(x, z) at two.
        q(x, z) :- q(x, y), l(y, z) at hot.
        p(x) :- k(x, _), !l(x, _) at two.
        o(x, c) :- k(x, _), c = count : { s(x, _) at hot }.""",
    "points that have just come": """
        hot(t) :- s(_, v)@t, v > 2.
        cold(t) :- s(_, v)@t, v < 1.
        both(t) :- hot(t), !cold(t).
        odd(t) :- both(t), t % 2 = 1.
        .output r
        .output q
        r(x, v) :- k(x, v) at both.
        q(x, v) :- k(x, v) at odd.""",
    "streams that forget": """
        .output r
        .output q
        .output p
        hot(t) :- s(_, v)@t, v > 2.
        r(x) :- s(x, _)@t, now(n), n - 3 < t.
        q(x) :- s(x, _)@t at every(4), now(n), n - 6 < t.
        last(max<t>) :- clock(t), t % 3 = 0.
        p(x, v) :- s(x, v)@t at hot, last(n), n - 3 < t.""",
    "a relation called now": """
        .decl now(n: number)
        now(4). now(t) :- e(t).
        r(x) :- d(x, t), now(t).
        q(x, t) :- d(x, t), clock(t).
        hot(t) :- s(_, v)@t, v > 2.
        .output r
        .output q
        .output p
        p(x, v) :- k(x, v) at hot.""",
    "least costs that are read at points": """
        c(x, y, v) :- l(x, y), k(x, v).
        c(x, z, v + w) :- c(x, y, v), l(y, z), k(y, w), v < 20, w > 0.
        best(x, y, min<v>) :- c(x, y, v).
        .output best
        .output r
        r(x, v) :- c(x, _, v) at every(3).""",
}
