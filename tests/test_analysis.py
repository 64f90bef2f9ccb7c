"""Mistakes in a model are errors where its class is made: the method, the line and the rule."""

from __future__ import annotations

import textwrap
import types
import warnings

import numpy as np
import pytest

import seer
from seer.errors import ConfigError, ModelError

HEAD = """
import numpy as np
import seer
PING = "ping"

def spread(ctx, s, i, by):
    s.x[i] += by
    ctx.send(PING, i, 1.0, 0.5)

def peek(s, j):
    return s.x[j]

def opaque(*anything):
    pass

class Model(seer.EventModel):
    size = seer.param(4)
    groups = {"drone": "size", "base": 2}
    agents = "drone"
    lookahead = 0.01
    x = seer.column("f8")
    pos = seer.column("f8", 2, published=True)
    fuel = seer.column("f8", of="drone")
    cool = seer.column("f8", of="base")
    obs = seer.observation("f4", 3)
    ping = seer.event({"strength": "f8"})
    pong = seer.event()
    near = seer.grid("pos", cell=1.0, high=10.0)
    mean_x = seer.total("mean", "x")
"""


def declare(tmp_path, methods, head=HEAD):
    """The model with these methods, from a file; and the number of the line marked `# <-`."""
    text = head + textwrap.indent(textwrap.dedent(methods), "    ")
    path = tmp_path / "a_model.py"
    path.write_text(text)
    lines = text.splitlines()
    marked = [k for k, line in enumerate(lines, 1) if "# <-" in line]
    module = types.ModuleType("a_model")

    def run():
        exec(compile(text, path, "exec"), module.__dict__)
        return module

    return path, (marked or [0])[0], run


BAD = {
    "kind": ('ctx.send("pingg", i, 1.0, 2.0)', "no event 'pingg'; did you mean 'ping'"),
    "kind computed": ("ctx.send(s.x[i], i, 1.0)", "write the kind out"),
    "fields missing": ('ctx.send("ping", i, 1.0)', "has 1 field.*'ping', to, delay, strength"),
    "fields surplus": ('ctx.send("pong", i, 1.0, 2.0)', "has 0 field.*got 4 arguments"),
    "fields ticks": ('ctx.send_ticks("ping", i, 1)', "'ping', to, ticks, strength"),
    "keywords": ('ctx.send("ping", i, 1.0, strength=2.0)', "by place only"),
    "ctx unknown": ("ctx.sned(1)", "ctx has no 'sned'; did you mean 'send'"),
    "ctx world": ("s.x[i] = ctx.world", "may not depend on it"),
    "ctx arguments": ("ctx.uniform(3)", "ctx.uniform takes 0 argument"),
    "near arguments": ('ctx.near("near", 1.0, 2.0, 3.0, 4.0)', "ctx.near takes 4 argument"),
    "grid": ('ctx.near("nearr", 1.0, 2.0, 3.0)', "no grid 'nearr'"),
    "column": ("s.y[i] = 1.0", "no column 'y'"),
    "column near": ("s.fule[i] = 1.0", "did you mean 'fuel'"),
    "param": ("s.x[i] = s.p.sise", "no parameter 'sise'; did you mean 'size'"),
    "param without p": ("s.x[i] = s.size", "write s.p.size"),
    "total": ("s.x[i] = s.total.mean_y", "no total 'mean_y'"),
    "seen written": ("s.seen.pos[i, 0] = 1.0", "write s.pos"),
    "seen written in place": ("s.seen.pos[i] += 1.0", "write s.pos"),
    "seen row written": ("v = s.seen.pos[i]\n    v[0] = 1.0", "write s.pos"),
    "seen filled": ("s.seen.pos[i].fill(0.0)", "write s.pos"),
    "seen as output": ("np.add(1.0, 2.0, out=s.seen.pos[i])", "write s.pos"),
    "seen private": ("s.x[i] = s.seen.x[i]", "'x' is not published"),
    "param written": ("s.p.size = 3", "s.p.size is read-only"),
    "total written": ("s.total.mean_x = 3", "s.total.mean_x is read-only"),
    "column replaced": ("s.x = 3", r"write s.x\[i\]"),
    "other read": ("s.x[i] = s.pos[i + 1, 0]", r"only its own.*read s.seen.pos\[...\]"),
    "other written": ("j = 3\n    s.x[j] = 0.0", "only its own"),
    "other's life": ("s.alive[i + 1] = 0", "only its own"),
    "whole column": ("s.x[i] = s.pos", "read by entity"),
    "draws written": ("s.draws[i] = 0", "read-only: the engine counts"),
    "acted written": ("s.acted[i] += 1", "read-only: the engine notes"),
    "entity assigned": ("i = 3", "'i' can't be assigned"),
    "state assigned": ("s = 3", "'s' can't be assigned"),
    "too many indices": ("s.x[i, 0] = 1.0", "which has one value per entity"),
    "out of range": ("s.pos[i, 2] = 1.0", "index 2 is out of range"),
    "negative": ("s.pos[i, -1] = 1.0", "negative ones are not supported"),
    "returns": ("return 3", "returns nothing"),
    "global": ("global q", "not in global names"),
    "delete": ("del s.x[i]", "nothing can be deleted"),
    "lambda": ("f = lambda v: v", "can't be made in a method"),
    "in a helper": ("peek(s, i + 1)", "only its own.*in peek, .*a_model.py"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_method_that_breaks_a_rule_is_refused_with_its_line(tmp_path, case):
    body, rule = BAD[case]
    path, line, run = declare(tmp_path, f"@seer.sweep()\ndef work(ctx, s, i):\n    {body}  # <-\n")
    with pytest.raises(ModelError, match=f"(?s){rule}") as caught:
        run()
    assert f"Model.work ({path}:" in str(caught.value)
    assert caught.value.method == "work"
    assert caught.value.line == line or "which it calls" in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "got"),
    [
        ("self, ctx, s, i", "no self"),
        ("ctx, s", r"got \(ctx, s\)"),
        ("ctx, s, i, e", r"got \(ctx, s, i, e\)"),
        ("ctx, s, i=0", r"got \(ctx, s, i=0\)"),
        ("ctx, s, *i", r"got \(ctx, s, \*i\)"),
        ("ctx, s, i, *, k=1", "k=1"),
    ],
)
def test_sweep_with_wrong_signature_is_refused(tmp_path, parameters, got):
    _, _, run = declare(tmp_path, f"@seer.sweep()\ndef work({parameters}):\n    pass\n")
    with pytest.raises(ModelError, match=rf"Model.work .*\(ctx, s, i\).*{got}|{got}"):
        run()


def test_generator_is_refused(tmp_path):
    _, _, run = declare(tmp_path, "@seer.sweep()\ndef work(ctx, s, i):\n    yield 1\n")
    with pytest.raises(ModelError, match="no generators"):
        run()


def test_handler_with_wrong_signature_or_kind_is_refused(tmp_path):
    _, _, run = declare(tmp_path, '@seer.on("ping")\ndef work(ctx, s, i):\n    pass\n')
    with pytest.raises(ModelError, match=r"\(ctx, s, i, e\)"):
        run()
    _, _, run = declare(tmp_path, '@seer.on("pin")\ndef work(ctx, s, i, e):\n    pass\n')
    with pytest.raises(ModelError, match="no event 'pin'; did you mean 'ping'"):
        run()
    twice = '@seer.on("ping")\ndef a(ctx, s, i, e):\n    pass\n'
    _, _, run = declare(tmp_path, twice + twice.replace("def a", "def b"))
    with pytest.raises(ModelError, match="has a handler already, 'a' at line"):
        run()


def test_handler_with_unknown_field_is_refused(tmp_path):
    text = '@seer.on("ping")\ndef work(ctx, s, i, e):\n    s.x[i] = e.strenght  # <-\n'
    _, line, run = declare(tmp_path, text)
    with pytest.raises(ModelError, match="no 'strenght'; did you mean 'strength'") as caught:
        run()
    assert caught.value.line == line


def test_sweep_over_one_group_with_a_column_of_another_is_refused(tmp_path):
    text = '@seer.sweep(over="base")\ndef work(ctx, s, i):\n    s.fuel[i] = 1.0\n'
    _, _, run = declare(tmp_path, text)
    with pytest.raises(ModelError, match="'fuel' belongs to group 'drone'"):
        run()


def test_parameters_may_have_any_names_and_aliases(tmp_path):
    text = """
    @seer.on("ping")
    def work(c, state, me, ev):
        p = state.p
        seen = state.seen
        here = state.pos
        same = me
        here[same, 0] = seen.pos[ev.source, 1] + p.size + ev.strength + c.uniform()
    """
    _, _, run = declare(tmp_path, text)
    spec = run().Model().spec
    assert spec.handler_writes == 1 << spec.column_index("pos")


def test_writes_follow_rows_helpers_and_escapes(tmp_path):
    text = """
    @seer.sweep()
    def reads(ctx, s, i):
        v = s.pos[i]
        w = v[0] + s.x[i]
    @seer.sweep()
    def by_row(ctx, s, i):
        v = s.pos[i]
        v[0] = 1.0
    @seer.sweep()
    def by_helper(ctx, s, i):
        spread(ctx, s, i, 2.0)
    @seer.sweep()
    def by_output(ctx, s, i):
        np.add(1.0, 2.0, s.pos[i])
    @seer.sweep()
    def dies(ctx, s, i):
        s.alive[i] = 0
    @seer.sweep()
    def escapes(ctx, s, i):
        opaque(ctx, s, i)
    """
    _, _, run = declare(tmp_path, text)
    spec = run().Model().spec
    got = {
        w.name: {c.name for k, c in enumerate(spec.columns) if w.writes >> k & 1}
        for w in spec.sweeps
    }
    assert got["reads"] == set()
    assert got["by_row"] == {"pos"}
    assert got["by_helper"] == {"x"}
    assert got["by_output"] == {"pos"}
    assert got["dies"] == {"alive"}
    assert got["escapes"] == {c.name for c in spec.columns} - {"draws", "acted"}


def test_method_without_source_works_with_a_note():
    text = HEAD + "    @seer.sweep()\n    def work(ctx, s, i):\n        s.x[i] = 1.0\n"
    text += "    @seer.sweep()\n    def rest(ctx, s, i):\n        pass\n"
    space = {"__name__": "nowhere"}
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        exec(compile(text, "<prompt>", "exec"), space)
    (note,) = notes
    assert "its source is not at hand, so the rules of work, rest " in str(note.message)
    spec = space["Model"]().spec
    assert spec.sweeps[0].writes >> spec.column_index("pos") & 1


def test_kind_without_handler_is_legal():
    class Quiet(seer.EventModel):
        groups = {"drone": 1}
        ping = seer.event()

        @seer.sweep()
        def work(ctx, s, i):
            ctx.send("ping", i, 1.0)

    assert Quiet().spec.kinds[0].method is None


def test_errors_are_value_errors():
    assert issubclass(ModelError, ConfigError)
    assert issubclass(ModelError, ValueError)
    assert issubclass(ModelError, seer.SeerError)
    assert np.dtype("f8").itemsize == 8
