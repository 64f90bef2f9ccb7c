"""Methods as machine code: equal to their plain form, kept on disk, with errors that name lines."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import helper_module as a_helper
import numba
import numpy as np
import pytest

import seer
from seer import cache, math
from seer import compile as compiling
from seer.compile import compile_model
from seer.errors import CompileError, HandlerError

ROOT = Path(__file__).resolve().parent.parent
OFFSET = 0.25
PING = "ping"
FACTOR = np.uint64(6364136223846793005)
TABLE = np.array([1.5, 2.5, 3.5])


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An empty cache on disk and in memory; the folder on disk."""
    monkeypatch.setenv("SEER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiling, "_addresses", {})
    return tmp_path / "cache"


def twice(s, i):
    s.total_in[i] += 2.0 * s.gain[i]


def factorial(n):
    return n * factorial(n - 1) if n > 1 else 1


def norm2(v):
    return v[0] * v[0] + v[1] * v[1]


class Mixed(seer.EventModel):
    """One of everything that methods may do."""

    count = seer.param(12, low=1)
    gain_rate = seer.param(0.37)
    loud = seer.param(True)
    groups = {"drone": "count", "base": 3}
    agents = "drone"
    step = 0.05
    lookahead = 1e-3

    pos = seer.column("f8", 2, published=True)
    matrix = seer.column("f4", (2, 3), of="drone")
    gain = seer.column("f4")
    total_in = seer.column("f8")
    small = seer.column("i2")
    byte = seer.column("u1", 3)
    state = seer.column("u8", initial=12345)
    heard = seer.column("i8", published=True)
    cool = seer.column("f8", of="base")
    act = seer.action("f4", 2)
    obs = seer.observation("f4", 4)
    rew = seer.reward()
    ping = seer.event({"strength": "f4", "hops": "u1", "who": "i2"})
    mail = seer.event({"a": "f8", "b": "f8", "c": "i4", "d": "u8"})
    near = seer.grid("pos", cell=10.0, high=40.0)
    mean_x = seer.total("mean", "pos", 0)
    most = seer.total("argmax", "heard")

    @seer.reset
    def place(ctx, s, i):
        s.pos[i, 0] = 40.0 * ctx.uniform()
        s.pos[i, 1] = 20.0 + 5.0 * ctx.normal()
        s.state[i] = ctx.bits()
        s.small[i] = ctx.integers(100) - 50
        ctx.send(PING, i, 0.01 * ctx.uniform(), 1.0, 3, i)

    @seer.sweep(over="drone")
    def move(ctx, s, i):
        v = s.act[i]
        for k in range(2):
            s.pos[i, k] += v[k] * s.p.gain_rate + s.act[i, k] * 0.1
            for m in range(3):
                s.matrix[i, k, m] = s.matrix[i, k, m] * 0.9 + ctx.time + k * m
        s.byte[i] = 250
        s.byte[i, 1] += i
        s.gain[i] = s.gain[i] * 0.5 + math.exp(-s.pos[i, 0]) + math.sqrt(abs(s.pos[i, 1]))
        s.total_in[i] += a_helper.scaled(s.gain[i]) + OFFSET + TABLE[i % 3]
        twice(s, i)
        s.small[i] += factorial(4) - 3
        if s.p.loud and s.total.mean_x > 3.0:
            s.state[i] = s.state[i] * FACTOR + np.uint64(1442695040888963407)

    @seer.sweep(at="end", over="drone", include="acted")
    def look(ctx, s, i):
        here = s.seen.pos[i]
        row = s.obs[i]
        row[0] = norm2(here)
        row[1:3] = here
        s.obs[i, 3] = s.matrix[i, 1, 2]
        s.rew[i] = s.heard[i] / max(1, ctx.step) + s.total.most
        if s.heard[i] > 40:
            s.alive[i] = 0

    @seer.on("ping")
    def hear(ctx, s, i, e):
        s.heard[i] += e.hops
        s.total_in[i] += e.strength * 0.3 + e.who
        if e.source == i:
            n = ctx.near("near", s.pos[i, 0], s.pos[i, 1], 9.0)
            for k in range(n):
                j = ctx.found(k)
                if j != i:
                    ctx.send("ping", j, 1e-3 + 1e-4 * ctx.uniform(), s.gain[i], e.hops - 1, -e.who)
                    ctx.send_ticks("mail", j, 2_000_000, s.seen.pos[j, 0], 0.1, -7, s.state[i])
            ctx.send("ping", i, 0.02, 1.0 / 3.0, 3, i)

    @seer.on("mail")
    def read(ctx, s, i, e):
        s.total_in[i] += e.a * e.b + e.c
        s.state[i] ^= e.d
        s.heard[i] += (e.time - ctx.now) + e.round


def run(model, steps=8, **options):
    with seer.Engine(model, worlds=2, **options) as engine:
        engine.reset(seed=5)
        rng = np.random.default_rng(0)
        shape = engine.action.shape
        for _ in range(steps):
            engine.step(rng.uniform(-1, 1, shape).astype("f4"))
        return {name: np.array(engine.columns[name]) for name in engine.columns}


@pytest.mark.parametrize("debug", [False, True])
def test_compiled_form_equals_plain_form_to_the_bit(debug):
    model = Mixed()
    plain, fast = run(model, compiled=False), run(model, debug=debug)
    assert int(plain["heard"].sum()) > 50
    for name, values in plain.items():
        assert values.tobytes() == fast[name].tobytes(), name


class Arithmetic(seer.EventModel):
    """For products and sums that a fused instruction would round once instead of twice."""

    groups = {"all_of": 4096}
    agents = "all_of"
    x = seer.action("f8", 3)
    y = seer.column("f8", 6)

    @seer.sweep()
    def work(ctx, s, i):
        a = s.x[i, 0]
        b = s.x[i, 1]
        c = s.x[i, 2]
        s.y[i, 0] = a * b + c
        s.y[i, 1] = a * b - c
        s.y[i, 2] = c - a * b
        s.y[i, 3] = (a / b) * c + a
        s.y[i, 4] = math.sqrt(abs(a * b)) + a * a
        s.y[i, 5] = 1.0 / (a - a) if a < b else -(a * c)


def test_products_and_sums_are_rounded_apart():
    x = np.random.default_rng(1).normal(size=(1, 4096, 3)) * 1e3
    with seer.Engine(Arithmetic()) as engine:
        engine.reset(seed=0)
        engine.step(x)
        y = np.array(engine.columns["y"])[0]
    a, b, c = x[0].T
    with np.errstate(all="ignore"):
        want = [a * b + c, a * b - c, c - a * b, (a / b) * c + a, np.sqrt(abs(a * b)) + a * a]
        want.append(np.where(a < b, 1.0 / (a - a), -(a * c)))
    assert np.array_equal(y.T, np.array(want))


class Functions(seer.EventModel):
    groups = {"one": 2000}
    agents = "one"
    x = seer.action("f8", 2)
    y = seer.column("f8", 9)

    @seer.sweep()
    def work(ctx, s, i):
        a = s.x[i, 0]
        b = s.x[i, 1]
        s.y[i, 0] = math.exp(a)
        s.y[i, 1] = math.log(a)
        s.y[i, 2] = math.log10(a)
        s.y[i, 3] = math.pow(a, b)
        s.y[i, 4] = math.sin(a)
        s.y[i, 5] = math.cos(b)
        s.y[i, 6] = math.atan2(a, b)
        s.y[i, 7] = math.hypot(a, b)
        s.y[i, 8] = math.sqrt(a)


def test_functions_of_seer_math_are_equal_in_both_forms():
    x = np.random.default_rng(2).normal(size=(1, 2000, 2)) * 20
    got = []
    for compiled in (True, False):
        with seer.Engine(Functions(), compiled=compiled) as engine:
            engine.reset(seed=0)
            engine.step(x)
            got.append(np.array(engine.columns["y"]))
    assert np.array_equal(got[0], got[1], equal_nan=True)
    assert np.allclose(got[0][0, :, 4], np.sin(x[0, :, 0]), rtol=0, atol=1e-15)
    assert np.isnan(math.sqrt(-1.0)) and np.isnan(math.log(-1.0)) and math.log(0.0) == -np.inf
    assert math.exp(1e6) == np.inf


# ---- the cache -----------------------------------------------------------------------------


def small_model(text="s.x[i] += a_helper.scaled(s.p.rate)"):
    space = {"seer": seer, "a_helper": a_helper, "__name__": "small"}
    source = f"""
class Small(seer.EventModel):
    n = seer.param(4)
    rate = seer.param(0.5)
    groups = {{"drone": "n"}}
    x = seer.column("f8")
    @seer.sweep()
    def work(ctx, s, i):
        {text}
"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(source, space)
    return space["Small"]


def test_cache_serves_the_second_time(fresh, monkeypatch):
    assert compile_model(small_model()).compiled == 1
    assert compile_model(small_model()).compiled == 0  # from memory
    monkeypatch.setattr(compiling, "_addresses", {})
    assert compile_model(small_model()).compiled == 0  # from disk
    assert len(list(fresh.glob("*.o"))) == 1


def test_cache_other_parameters_and_sizes_compile_nothing(fresh):
    model = small_model()
    compile_model(model(n=4))
    assert compile_model(model(n=50, rate=2.0)).compiled == 0
    assert compile_model(model(n=50), debug=True).compiled == 1


def test_cache_another_body_or_layout_is_another_key(fresh):
    compile_model(small_model())
    assert compile_model(small_model("s.x[i] += 2.0")).compiled == 1
    assert compile_model(small_model("s.x[i] += 3.0")).compiled == 1


@pytest.mark.parametrize("helper", ["scaled", "shifted"])
def test_cache_edited_helper_is_another_key(fresh, monkeypatch, helper):
    compile_model(small_model())
    monkeypatch.setattr(a_helper, helper, lambda x: x * 7.0)
    assert compile_model(small_model()).compiled == 1


def test_cache_edited_constant_of_a_helper_is_another_key(fresh, monkeypatch):
    compile_model(small_model())
    monkeypatch.setattr(a_helper, "SCALE", 4.0)
    assert compile_model(small_model()).compiled == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: b"{}\n",
        lambda data: b"\xff\xfe" + data,
    ],
)
def test_cache_damaged_file_is_compiled_again(fresh, monkeypatch, damage):
    compile_model(small_model())
    (path,) = fresh.glob("*.o")
    good = path.read_bytes()
    path.write_bytes(damage(good))
    monkeypatch.setattr(compiling, "_addresses", {})
    assert compile_model(small_model()).compiled == 1
    assert cache.load(path.stem) is not None


def test_cache_that_cannot_be_written_is_noted_once(tmp_path, monkeypatch):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setenv("SEER_CACHE_DIR", str(blocked / "under"))
    monkeypatch.setattr(compiling, "_addresses", {})
    monkeypatch.setattr(cache, "_noted", False)
    with pytest.warns(UserWarning, match="set SEER_CACHE_DIR"):
        assert compile_model(small_model()).compiled == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compile_model(small_model("s.x[i] += 9.0")).compiled == 1


SCRIPT = """
import sys, time
start = time.perf_counter()
import seer
heavy = ("numba", "llvmlite", "pettingzoo", "gymnasium", "sklearn")
imported = [m for m in heavy if m in sys.modules]
assert not imported, imported
import numpy as np
from other_model import Other
from seer.compile import compile_model
print("compiled", compile_model(Other(n=int(sys.argv[1]))).compiled)
with seer.Engine(Other(n=int(sys.argv[1]))) as engine:
    engine.reset(seed=1)
    engine.step()
    print("x", engine.columns["x"][0, 0])
print("numba", "numba" in sys.modules)
print("seconds", time.perf_counter() - start)
"""
OTHER = """
import seer
from other_helper import grow

class Other(seer.EventModel):
    n = seer.param(4)
    groups = {"drone": "n"}
    x = seer.column("f8", published=True)
    ping = seer.event()
    @seer.sweep()
    def work(ctx, s, i):
        s.x[i] = grow(s.x[i])
        ctx.send("ping", i, 0.01)
    @seer.on("ping")
    def hear(ctx, s, i, e):
        s.x[i] += 0.5
"""


def test_second_process_compiles_nothing_until_a_helper_in_another_file_changes(tmp_path):
    (tmp_path / "other_model.py").write_text(OTHER)
    helper = tmp_path / "other_helper.py"
    helper.write_text("def grow(x):\n    return x + 1.0\n")

    def start(n):
        paths = [str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")]
        env = {
            **os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1",
            "SEER_CACHE_DIR": str(tmp_path / "cache"),
        }  # fmt: skip
        out = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(n)], env=env, capture_output=True, text=True,
            check=False, cwd=tmp_path, timeout=120,
        )  # fmt: skip
        assert out.returncode == 0, out.stderr
        return dict(line.split(maxsplit=1) for line in out.stdout.splitlines())

    first, second, third = start(4), start(4), start(40)
    assert first["compiled"] == "2" and first["x"] == "1.5"
    assert second["compiled"] == "0" and second["x"] == "1.5" and second["numba"] == "False"
    assert third["compiled"] == "0"
    helper.write_text("def grow(x):\n    return x + 2.0\n")
    fourth = start(4)
    assert fourth["compiled"] == "1" and fourth["x"] == "2.5"


# ---- what can go wrong -----------------------------------------------------------------------


def test_method_that_numba_cannot_compile_names_its_line(fresh, tmp_path):
    path = tmp_path / "bad_model.py"
    path.write_text(
        textwrap.dedent("""
        import seer
        class Bad(seer.EventModel):
            groups = {"drone": 1}
            x = seer.column("f8")
            @seer.sweep()
            def work(ctx, s, i):
                s.x[i] = 1.0
                s.x[i] = "text" + 1  # line 9
        """)
    )
    space: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    with pytest.raises(CompileError, match=rf"work \({path}:9\)") as caught:
        compile_model(space["Bad"])
    assert caught.value.line == 9 and caught.value.method == "work"


class Chatty(seer.EventModel):
    groups = {"drone": 2}
    x = seer.column("f8")

    @seer.sweep()
    def talk(ctx, s, i):
        s.x[i] += 1.0
        print(i, s.x[i])


def test_print_is_refused_when_compiled_and_works_in_plain_python(fresh, capsys):
    with pytest.raises(CompileError, match=r"talk .*print, .* compiled=False") as caught:
        compile_model(Chatty())
    assert caught.value.line == Chatty.declared["talk"].line + 3
    with seer.Engine(Chatty, compiled=False) as engine:
        engine.reset(seed=0)
        engine.step()
    assert capsys.readouterr().out == "0 1.0\n1 1.0\n"


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("helper(ctx, s, i)", "no event 'pong'; did you mean 'ping'"),
        ("written(s, i)", "written by the engine"),
        ("column(s, i)", "no column 'y'"),
    ],
)
def test_helper_without_source_is_checked_when_compiled(fresh, body, rule):
    space = {"seer": seer, "__name__": "prompt"}
    source = f"""
def helper(ctx, s, i):
    ctx.send("pong", i, 1.0)
def written(s, i):
    s.seen.x[i] = 1.0
def column(s, i):
    s.y[i] = 1.0
class Prompt(seer.EventModel):
    groups = {{"drone": 1}}
    x = seer.column("f8", published=True)
    ping = seer.event()
    @seer.sweep()
    def work(ctx, s, i):
        {body}
"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(source, space)
    with pytest.raises(CompileError, match=rule):
        compile_model(space["Prompt"])


class Faulty(seer.EventModel):
    groups = {"drone": 3, "base": 2}
    which = seer.param(0)
    x = seer.column("f8", 2, published=True)
    fuel = seer.column("f8", of="drone")
    cool = seer.column("f8", of="base")

    @seer.sweep()
    def work(ctx, s, i):
        k = s.p.which
        if k == 1:
            s.x[i, i] = 1.0
        if k == 2 and i == 4:
            s.fuel[i] = 1.0
        if k == 3 and i == 0:
            s.cool[i] = 1.0
        if k == 4:
            s.x[i, 0] = s.seen.x[i + 1, 0]
        if k == 5:
            s.x[i, 0] = s.seen.x[i - 1, 0]
        if k == 6 and i == 2:
            raise ValueError("no")


@pytest.mark.parametrize(("which", "entity"), [(1, 2), (2, 4), (3, 0), (4, 4), (5, 0), (6, 2)])
def test_debug_build_finds_indices_out_of_range(which, entity):
    with seer.Engine(Faulty(which=which), debug=True) as engine:
        engine.reset(seed=0)
        with pytest.raises(HandlerError, match="work") as caught:
            engine.step()
        assert caught.value.entity == entity


@pytest.mark.parametrize(
    ("which", "rule"),
    [(1, r"s\.x wrongly: an index is out of range, rows have shape \(2,\)"),
     (2, "s.fuel wrongly: expected an id of group 'drone', 0 to 2"),
     (5, "s.seen.x wrongly: expected an id of group 'all', 0 to 4")],
)  # fmt: skip
def test_debug_build_says_which_access_was_wrong(which, rule):
    with seer.Engine(Faulty(which=which), debug=True) as engine:
        engine.reset(seed=0)
        with pytest.raises(HandlerError, match=rule):
            engine.step()


class TwoGroups(seer.EventModel):
    """Two handlers that touch a column of one group, and one that looks before it does."""

    groups = {"sheep": "sheep", "wolf": 3}
    sheep = seer.param(4)
    target = seer.param(0)
    careful = seer.param(False)
    wool = seer.column("f8", of="sheep")
    teeth = seer.column("i4", 2, of="wolf")
    eaten = seer.column("i8", of="wolf")
    sound = seer.event()

    @seer.sweep()
    def call(ctx, s, i):
        if i == s.p.target:
            ctx.send("sound", i, 0.0)

    @seer.on("sound")
    def hear(ctx, s, i, e):
        if not s.p.careful or i >= s.p.sheep:
            s.teeth[i, 1] += 1
            s.eaten[i] += 1
        if not s.p.careful or i < s.p.sheep:
            s.wool[i] += 1.0


class WolvesInASweep(seer.EventModel):
    groups = {"sheep": 2, "wolf": 3}
    eaten = seer.column("i8", of="wolf")

    @seer.sweep()
    def work(ctx, s, i):
        s.eaten[i] = 1


@pytest.mark.parametrize("pool", [seer.PoolConfig(1), seer.PoolConfig(2, "lanes", share=True)])
@pytest.mark.parametrize(("target", "column"), [(0, "teeth"), (3, "teeth"), (4, "wool")])
def test_a_column_of_another_group_is_an_error_and_not_a_write_beside_it(target, column, pool):
    with seer.Engine(TwoGroups(target=target), worlds=2, pool=pool) as engine:
        engine.reset(seed=0)
        before = {name: array.copy() for name, array in engine.columns.items()}
        with pytest.raises(HandlerError, match=f"s.{column} wrongly: expected an id") as caught:
            engine.step()
        assert (caught.value.entity, caught.value.kind) == (target, "sound")
        for name in ("wool", "teeth", "eaten"):
            after = engine.columns[name].copy()
            mine = target - (4 if name != "wool" else 0)
            if 0 <= mine < after.shape[1]:
                after[:, mine] = 0  # what was allowed
            assert np.array_equal(after, before[name])


def test_a_handler_that_tells_groups_apart_may_touch_the_columns_of_both():
    for sheep in (4, 7):  # the same code, other bounds
        for target in (0, sheep - 1, sheep, sheep + 2):
            model = TwoGroups(sheep=sheep, target=target, careful=True)
            with seer.Engine(model) as engine:
                engine.reset(seed=0)
                engine.step()
                row, name = (target, "wool") if target < sheep else (target - sheep, "eaten")
                assert engine.columns[name][0, row] == 1
                assert engine.columns["wool"].sum() + engine.columns["eaten"].sum() == 1
    assert compile_model(TwoGroups(sheep=9)).compiled == 0


def test_a_sweep_over_all_is_stopped_at_a_column_of_one_group():
    with seer.Engine(WolvesInASweep()) as engine:
        engine.reset(seed=0)
        with pytest.raises(HandlerError, match=r"s\.eaten wrongly") as caught:
            engine.step()
        assert (caught.value.entity, caught.value.sweep) == (0, "work")
        assert caught.value.others == 1
        assert engine.columns["eaten"].tolist() == [[1, 1, 1]]


def test_exception_in_the_fast_build_is_a_handler_error_for_its_entity():
    with seer.Engine(Faulty(which=6)) as engine:
        engine.reset(seed=0)
        with pytest.raises(HandlerError, match=r"work raised .* compiled=False.*test_compile") as (
            caught
        ):
            engine.step()
        assert caught.value.entity == 2
        engine.reset(seed=0)


@numba.njit
def jitted(x):
    return x + 0.5


def make_model(step, weights):
    def closed(x):
        return x * step

    class Closing(seer.EventModel):
        groups = {"drone": 5}
        x = seer.column("f8", 2, initial=1.0)
        y = seer.column("f8")

        @seer.sweep()
        def work(ctx, s, i):
            a, b = s.x[i]
            s.x[i] = (closed(a), jitted(b))
            s.x[i] += weights[0]
            s.x[i, :] *= 2.0
            s.y[i] = seer.math.exp(0.1 * min(a, b, 2.0)) + len(s.x[i]) + weights[i % 2]

    return Closing


def test_helpers_from_closures_numba_and_dotted_names_work_in_both_forms():
    got = []
    for compiled in (True, False):
        with seer.Engine(make_model(3.0, (0.5, 0.25)), compiled=compiled) as engine:
            engine.reset(seed=0)
            engine.step()
            engine.step()
            got.append((np.array(engine.columns["x"]), np.array(engine.columns["y"])))
    assert np.array_equal(got[0][0], got[1][0]) and np.array_equal(got[0][1], got[1][1])


def test_closures_with_other_values_are_other_code(fresh):
    assert compile_model(make_model(3.0, (0.5, 0.25))).compiled == 1
    assert compile_model(make_model(3.0, (0.5, 0.25))).compiled == 0
    assert compile_model(make_model(4.0, (0.5, 0.25))).compiled == 1
    assert compile_model(make_model(4.0, (0.5, 0.75))).compiled == 1


class Drawing(seer.EventModel):
    n = seer.param(1)
    code = seer.param(0)
    groups = {"drone": 2}
    x = seer.column("i8")

    @seer.sweep()
    def work(ctx, s, i):
        s.x[i] = ctx.integers(s.p.n)
        if s.p.code != 0:
            ctx.fail(s.p.code)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("n", [1, 0, -5, -(2**63), 2**63 - 1])
def test_integers_below_nothing_are_refused(n, compiled):
    with seer.Engine(Drawing(n=n), compiled=compiled) as engine:
        engine.reset(seed=0)
        if n >= 1:
            engine.step()
            assert (engine.columns["x"] >= 0).all() and (engine.columns["x"] < n).all()
            return
        with pytest.raises(HandlerError, match=r"called ctx.integers\(n\): expected n of 1 to"):
            engine.step()


@pytest.mark.parametrize("code", [1, -1, 2**31 - 1, 2**40 + 7])
def test_a_failure_has_the_same_code_in_both_forms(code):
    found = []
    for compiled in (True, False):
        with seer.Engine(Drawing(code=code), compiled=compiled) as engine:
            engine.reset(seed=0)
            with pytest.raises(HandlerError, match=r"ctx\.fail") as caught:
                engine.step()
            found.append((str(caught.value), caught.value.user_code))
    assert found[0] == found[1]


class Misfits(seer.EventModel):
    """Writes floats that no integer is equal to."""

    groups = {"cell": 5}
    step = 1.0
    lookahead = 0.5
    given = seer.column("f8")
    wide, narrow, positive = seer.column("i8"), seer.column("i1"), seer.column("u2")
    sent = seer.column("i4")
    note = seer.event({"value": "i4"})

    @seer.sweep(at=0.0)
    def write(ctx, s, i):
        s.wide[i] = s.given[i]
        s.narrow[i] = s.given[i]
        s.positive[i] = s.given[i]
        ctx.send("note", i, 0.25, s.given[i])

    @seer.on("note")
    def keep(ctx, s, i, e):
        s.sent[i] = e.value


@pytest.mark.parametrize("compiled", [True, False])
def test_a_float_that_fits_no_integer_is_stored_alike_in_both_forms(compiled):
    with seer.Engine(Misfits(), compiled=compiled) as engine:
        engine.reset(seed=0)
        engine.columns["given"][0] = [np.nan, np.inf, -np.inf, 1e6 + 0.7, -3.9]
        engine.step()
        got = {
            name: engine.columns[name][0].tolist()
            for name in ("wide", "narrow", "positive", "sent")
        }
    assert got == {
        "wide": [0, 2**63 - 1, -(2**63), 1000000, -3],
        "narrow": [0, 127, -128, 127, -3],
        "positive": [0, 65535, 0, 65535, 0],
        "sent": [0, 2**31 - 1, -(2**31), 1000000, -3],
    }
