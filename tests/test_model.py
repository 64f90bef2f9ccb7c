"""What a declaration becomes, and the mistakes that need no source to be seen."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import seer
from seer.errors import ConfigError, ModelError


class Swarm(seer.EventModel):
    """Two groups, one of everything."""

    drones = seer.param(16, low=1, high=1000, doc="how many drones")
    radius = seer.param(60.0, low=0.0)
    loud = seer.param(False)
    groups = {"drone": "drones", "base": lambda p: p.drones // 8}
    agents = "drone"
    step = 0.1
    lookahead = staticmethod(lambda p: p.radius * 1e-6)

    pos = seer.column("f8", 2, published=True, initial=(1.0, 2.0))
    slots = seer.column("i4", lambda p: (p.drones, 2), of="base", initial=-1)
    act = seer.action("f4", 3)
    obs = seer.observation("f4", 5)
    rew = seer.reward()
    over = seer.terminated()
    ping = seer.event({"strength": "f4", "hops": "i4"})
    mail = seer.event({"a": "f8", "b": "u1"}, even_if_dead=True)
    quiet = seer.event()
    near = seer.grid("pos", cell="radius", low=(0.0, -10.0), high=500.0)
    mean_x = seer.total("mean", "pos", 1, alive_only=True)

    @seer.reset
    def place(ctx, s, i):
        s.pos[i, 0] = ctx.uniform()

    @seer.sweep(at=0.05, over="drone", include="acted", on_reset=True)
    def move(ctx, s, i):
        s.rew[i] = s.act[i, 0]

    @seer.sweep(at="end")
    def last(ctx, s, i):
        pass

    @seer.on("ping")
    def hear(ctx, s, i, e):
        s.alive[i] = 0


def test_spec_resolves_groups_times_and_columns():
    spec = Swarm(drones=32, radius=50).spec
    assert [(g.name, g.first, g.count) for g in spec.groups] == [("drone", 0, 32), ("base", 32, 4)]
    assert spec.entities == 36 and spec.agents == spec.groups[0]
    assert (spec.step, spec.lookahead, spec.tick) == (100_000_000, 50_000, 1e-9)
    names = [c.name for c in spec.columns]
    assert names == ["alive", "acted", "draws", "pos", "slots", "act", "obs", "rew", "over"]
    assert spec.columns[0].initial == 1 and spec.columns[0].published
    slots = spec.column("slots")
    assert slots.shape == (32, 2) and slots.group.name == "base" and slots.row_bytes == 256
    assert np.array_equal(slots.initial, np.full((32, 2), -1, "i4"))
    assert spec.column("pos").initial.tolist() == [1.0, 2.0]
    assert spec.role("action").name == "act" and spec.role("reward").dtype == np.float64
    assert spec.params == {"drones": 32, "radius": 50.0, "loud": False}


def test_spec_resolves_kinds_sweeps_totals_and_grids():
    spec = Swarm().spec
    ping, mail, quiet = spec.kinds
    assert not ping.wide and mail.wide and mail.even_if_dead and quiet.method is None
    assert ping.method.name == "hear" and ping.fields[1] == ("hops", np.dtype("i4"))
    place, move, last = spec.sweeps
    assert (place.on_step, place.on_reset, place.include) == (False, True, "all")
    assert (move.offset, move.on_step, move.on_reset) == (50_000_000, True, True)
    assert move.include == "acted" and move.group.name == "drone"
    assert last.offset == spec.step and last.writes == 0
    assert move.writes == 1 << spec.column_index("rew")
    assert spec.handler_writes == 1
    (total,) = spec.totals
    assert (total.op, total.column, total.item, total.alive_only) == ("mean", 3, 1, True)
    (grid,) = spec.grids
    assert (grid.low, grid.high, grid.cell) == ((0.0, -10.0), (500.0, 500.0), 60.0)


def test_hash_depends_on_what_decides_results_and_on_nothing_else():
    first, again, other = Swarm().spec.hash, Swarm().spec.hash, Swarm(radius=61.0).spec.hash
    assert first == again != other

    class Roomy(Swarm):
        lane_capacity = 9

    class Swarm2(Swarm):
        @seer.on("ping")
        def hear(ctx, s, i, e):
            s.alive[i] = 1

    assert len({first, Swarm2().spec.hash, Roomy().spec.hash}) == 3
    assert Roomy().spec.lane_capacity == 9


def test_subclass_keeps_and_replaces_declarations():
    class Faster(Swarm):
        step = 0.05
        radius = seer.param(10.0)

        @seer.sweep(at=0.01)
        def move(ctx, s, i):
            pass

    assert Faster().spec.step == 50_000_000 and Faster().radius == 10.0
    assert Faster.move.at == 0.01 and Swarm.move.at == 0.05
    assert len(Faster().spec.kinds) == 3


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"dornes": 3}, "no parameter 'dornes'; did you mean 'drones'"),
        ({"drones": 0}, "drones=0.*at least 1"),
        ({"drones": 1001}, "at most 1000"),
        ({"drones": 2.5}, "expected int, got float"),
        ({"drones": True}, "expected int, got bool"),
        ({"drones": "8"}, "expected int, got str"),
        ({"radius": float("nan")}, "must be a number"),
        ({"radius": -1.0}, "at least 0"),
        ({"loud": 1}, "expected bool, got int"),
        ({"drones": None}, "expected int, got NoneType"),
    ],
)
def test_bad_parameter_is_a_config_error(params, text):
    with pytest.raises(ConfigError, match=text):
        Swarm(**params)


def test_numpy_parameters_become_python_numbers():
    model = Swarm(drones=np.int32(8), radius=np.float32(0.5))
    assert model.params == {"drones": 8, "radius": 0.5, "loud": False}
    assert type(model.drones) is int
    assert repr(model) == "Swarm(drones=8, radius=0.5, loud=False)"


def declare(body, **settings):
    space = {"groups": {"drone": 2}, **settings}
    lines = "\n".join(f"    {line}" for line in body.splitlines() or ["pass"])
    source = f"import seer\nclass M(seer.EventModel):\n{lines}\n"
    for name, value in space.items():
        source += f"    {name} = {value!r}\n"
    names = {"__name__": "somewhere", "inf": float("inf"), "nan": float("nan")}
    exec(compile(source, "a_file.py", "exec"), names)
    return names["M"]


BAD = {
    "dtype": ("x = seer.column('f2')", r"a_file.py:3.*dtype must be one of"),
    "dtype text": ("x = seer.column('what')", "dtype must be one of"),
    "twice": ("x = seer.column()\nx = seer.column()", "'x'.*declared already, as column at line 3"),
    "built in": ("alive = seer.column()", "built in"),
    "setting": ("groups_ = 1\nspec = seer.column()", "is a setting"),
    "underscore": ("_x = seer.column()", "underscore"),
    "group": ("x = seer.column(of='dron')", "of='dron' is no group; there is 'drone'"),
    "no agents": ("a = seer.action('f4', 2)", "an? action needs agents"),
    "default": ("n = seer.param('text')", "must be an int, a float or a bool"),
    "field": ("e = seer.event({'time': 'f8'})", "every event has already"),
    "field dtype": ("e = seer.event({'v': 'O'})", "must have one of the dtypes"),
    "field bytes": ("e = seer.event({f'v{k}': 'f8' for k in range(6)})", "40 bytes, these fill 48"),
    "grid column": ("g = seer.grid('pos', cell=1.0)", "no column 'pos'"),
    "grid unpublished": (
        "x = seer.column('f8', 2)\ng = seer.grid('x', cell=1.0)", "published=True",
    ),
    "grid dtype": (
        "x = seer.column('f4', 2, published=True)\ng = seer.grid('x', cell=1.0)", "needs an f8",
    ),
    "total op": ("x = seer.column()\nt = seer.total('median', 'x')", "operation must be one of"),
    "total column": ("t = seer.total('sum', 'x')", "no column 'x'"),
    "total dtype": ("x = seer.column('u8')\nt = seer.total('sum', 'x')", "a total needs"),
    "include": (
        "@seer.sweep(include='dead')\ndef f(ctx, s, i):\n    pass", "include must be",
    ),
    "over": ("@seer.sweep(over='dron')\ndef f(ctx, s, i):\n    pass", "over='dron' is no group"),
    "at": ("@seer.sweep(at=-0.1)\ndef f(ctx, s, i):\n    pass", "finite and 0 or more"),
    "at nan": ("@seer.sweep(at=float('nan'))\ndef f(ctx, s, i):\n    pass", "finite and 0 or more"),
    "at text": ("@seer.sweep(at='ende')\ndef f(ctx, s, i):\n    pass", '"end" or the name'),
    "no parentheses": ("@seer.sweep\ndef f(ctx, s, i):\n    pass", "with parentheses"),
    "name that numba takes": ("view = seer.column('f8')", "numba can't compile this name"),
    "on without name": ("@seer.on\ndef f(ctx, s, i, e):\n    pass", "with the name of an event"),
    "not a function": ("f = seer.reset(3)", "decorates a function"),
    "published": ("x = seer.column(published='no')", "published must be True or False, got 'no'"),
    "of a list": ("x = seer.column(of=['drone'])", r"of must be a name, got \['drone'\]"),
    "over a list": ("@seer.sweep(over=[1])\ndef f(ctx, s, i):\n    pass", "over must be a name"),
    "on_reset": (
        "@seer.sweep(on_reset=1)\ndef f(ctx, s, i):\n    pass", "on_reset must be True or False",
    ),
    "grid of a list": ("g = seer.grid(['x'], cell=1.0)", "column must be a name"),
    "total of a list": ("t = seer.total('sum', ['x'])", "column must be a name"),
    "total of nothing": ("t = seer.total('sum', None)", "column must be a name, got None"),
    "op list": ("t = seer.total(['sum'], 'alive')", "operation must be one of"),
    "alive_only": ("t = seer.total('sum', 'alive', alive_only=2)", "must be True or False, got 2"),
    "fields list": ("e = seer.event(['v'])", r"the fields must be a dict .*got \['v'\]"),
    "fields number": ("e = seer.event(3)", "the fields must be a dict .*got 3"),
    "field keyword": ("e = seer.event({'class': 'f8'})", "'class' can't be the name of a field"),
    "even_if_dead": ("e = seer.event(even_if_dead='x')", "even_if_dead must be True or False"),
    "low": ("n = seer.param(1, low='x')", "low must be a number, got 'x'"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*source is not at hand")
@pytest.mark.parametrize("case", BAD)
def test_bad_declaration_is_refused_when_the_class_is_made(case):
    body, text = BAD[case]
    with pytest.raises(ModelError, match=f"(?s){text}"):
        declare(body)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"lookahead": -1e-3}, "lookahead must be finite and 0 or more"),
        ({"lookahead": float("inf")}, "lookahead must be finite"),
        ({"step": 0.0}, "step must be finite and above 0"),
        ({"step": float("nan")}, "step must be finite"),
        ({"tick": -1.0}, "tick must be finite and above 0"),
        ({"groups": {}}, "groups must name the entities"),
        ({"groups": {"all": 3}}, "may not be named 'all'"),
        ({"agents": "phone"}, "agents = 'phone' is no group"),
        ({"agents": ["drone"]}, r"agents must name one group, the one that acts, got \['drone'\]"),
    ],
)
def test_bad_setting_is_refused_when_the_class_is_made(settings, text):
    with pytest.raises(ModelError, match=text):
        declare("", **settings)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"step": 1e-12}, "at least one tick"),
        ({"groups": {"drone": -1}}, "from 0 to"),
        ({"groups": {"drone": 0}}, "1 to .* entities are allowed, got 0"),
        ({"groups": {"drone": 2.5}}, "must be an int"),
        ({"groups": {"drone": "n"}}, "names a parameter 'n', which is not"),
        ({"lane_capacity": 0}, "lane_capacity must be from 1"),
        ({"max_rounds": "many"}, "names a parameter 'many'"),
        ({"step": 1e30}, "too long"),
    ],
)
def test_bad_setting_that_needs_the_parameters_is_refused_when_built(settings, text):
    model = declare("", **settings)
    with pytest.raises(ConfigError, match=text):
        model()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("x = seer.column('f8', 0)", "from 1 to"),
        ("x = seer.column('f8', 2, initial=(1, 2, 3))", "must fill a row of shape"),
        ("x = seer.column('f8', lambda p: p.nope)", "could not be computed"),
        ("x = seer.column('f8', 4, published=True)\ng = seer.grid('x', cell=1.0)", "2 or 3"),
        ("x = seer.column('f8', 2, published=True)\ng = seer.grid('x', cell=0.0)", "above 0"),
        (
            "x = seer.column('f8', 2, published=True)\ng = seer.grid('x', cell=1.0, low=2.0)",
            "low below high",
        ),
        ("x = seer.column('f8', 2)\nt = seer.total('sum', 'x', 2)", "item of total"),
    ],
)
def test_bad_value_is_refused_when_built(body, text):
    model = declare(body)
    with pytest.raises(ConfigError, match=text):
        model()


def test_columns_are_at_most_64():
    most = "\n".join(f"x{k} = seer.column()" for k in range(61))
    assert len(declare(most)().spec.columns) == 64
    with pytest.raises(ModelError, match="at most 61 columns"):
        declare(most + "\nlast_one = seer.column()")


def test_offset_past_the_step_is_refused():
    class Late(seer.EventModel):
        groups = {"drone": 1}
        step = 0.1

        @seer.sweep(at=0.2)
        def work(ctx, s, i):
            pass

    with pytest.raises(ConfigError, match=re.escape("from 0 to 0.1 s, got 0.2 s")):
        Late()


def test_seconds_are_rounded_half_to_even():
    from seer.spec import to_ticks

    assert [to_ticks(s, 1.0) for s in (0.5, 1.5, 2.5, 0.4999, -0.5)] == [0, 2, 2, 0, 0]
    assert to_ticks(1e-3, 1e-9) == 1_000_000


def test_step_and_lookahead_may_be_parameters():
    class Timed(seer.EventModel):
        groups = {"drone": 1}
        step = seer.param(0.2)
        delay = seer.param(0.01)
        lookahead = "delay"

    assert Timed().spec.step == 200_000_000
    assert Timed(step=0.5, delay=0.02).spec.lookahead == 20_000_000
    with pytest.raises(ConfigError, match=r"lookahead must not be negative"):
        Timed(delay=-0.02)


def test_methods_stay_plain_functions_underneath():
    assert Swarm.hear.fn.__name__ == "hear"
    assert Swarm.place.method.line < Swarm.move.method.line
    assert isinstance(Swarm.drones, seer.model.Param)


def test_declaring_a_model_imports_no_compiler():
    code = (
        "import sys, seer\n"
        "class M(seer.EventModel):\n    groups = {'a': 1}\n    x = seer.column()\n"
        "M()\nheavy = {'numba', 'llvmlite', 'pettingzoo', 'gymnasium', 'sklearn'}\n"
        "bad = heavy & set(sys.modules)\n"
        "assert not bad, bad\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.filterwarnings("ignore:.*source is not at hand")
@pytest.mark.parametrize(
    ("initial", "good"), [(1, True), (1.0, True), (1.5, False), (300, False), (-1, False)]
)
def test_initial_values_fit_their_dtype(initial, good):
    made = declare(f"x = seer.column('u1', 2, initial={initial})")
    if good:
        assert made().spec.column("x").initial.tolist() == [1, 1]
        return
    with pytest.raises(ConfigError, match=rf"initial value of column 'x' must .*got {initial}"):
        made()


@pytest.mark.filterwarnings("ignore:.*source is not at hand")
@pytest.mark.parametrize("lookahead", ["10**400", "lambda p: 10**400", "lambda p: -(10**301)"])
def test_a_number_that_fits_no_float_is_refused(lookahead):
    with pytest.raises(ConfigError, match=r"lookahead must be finite|lookahead is too long"):
        declare(f"lookahead = {lookahead}")()


def test_parameters_may_have_the_names_of_arguments():
    with pytest.raises(ConfigError, match="no parameter 'self'"):
        Swarm(self=1)
    with pytest.raises(ConfigError, match=r"radius=1000.*must fit a float"):
        Swarm(radius=10**400)


@pytest.mark.parametrize(("space", "text"), [("1 / 0", "ZeroDivisionError"), ("3", "got 3")])
def test_an_action_space_that_is_none_is_refused(space, text):
    class Acting(seer.EventModel):
        groups = {"drone": 2}
        agents = "drone"
        push = seer.action("f4", 2)
        sight = seer.observation("f4", 2)

        @staticmethod
        def action_space(p):
            return eval(space)

    for make in (seer.Engine, seer.make):
        with pytest.raises(ConfigError, match=rf"action_space .*{text}"):
            make(Acting)
