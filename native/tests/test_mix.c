/* test_mix.c - the random model gives the oracle's results on every pool.
 *
 * usage: test_mix [short|long] */
#include "mix.h"

static int long_run;

typedef struct mix_case {
    const char *name;
    mix_options options;
    int steps;
} mix_case;

static const mix_case cases[] = {
    /*             worlds entities lookahead step tokens remote burst instant far death work uneven */
    {"plain", {1, 70, 1000, 20000, 2, 64, 8, 0, 0, 0, 0, 0}, 4},
    {"rounds", {1, 61, 1000, 20000, 2, 64, 8, 60, 0, 0, 0, 0}, 4},
    {"lookahead 0", {1, 37, 0, 60, 1, 128, 8, 60, 0, 0, 0, 0}, 3},
    {"lookahead 1", {1, 33, 1, 40, 1, 128, 8, 30, 10, 0, 0, 0}, 3},
    {"far", {1, 50, 700, 30001, 2, 64, 8, 20, 60, 0, 0, 0}, 5},
    {"long lookahead", {1, 40, 90000, 20000, 2, 64, 8, 20, 10, 0, 0, 0}, 6},
    {"deaths", {1, 90, 1000, 15000, 2, 100, 30, 20, 10, 600, 0, 0}, 5},
    {"uneven", {1, 256, 500, 10000, 2, 128, 8, 8, 4, 0, 20, 230}, 3},
    {"long lanes", {1, 8, 3000, 9000, 60, 128, 8, 20, 10, 0, 0, 0}, 4},
    {"one entity", {1, 1, 100, 5000, 3, 128, 8, 40, 10, 0, 0, 0}, 3},
    {"worlds", {7, 19, 1000, 20000, 2, 64, 8, 30, 10, 100, 0, 0}, 4},
    {"worlds, lookahead 0", {5, 17, 0, 50, 1, 128, 8, 60, 10, 100, 0, 0}, 3},
};

typedef struct expected {
    mix_columns columns;
    mix_totals totals;
    mix_pending pending;
} expected;

static void one_pool(const mix_case *c, const expected *x, const seer_pool_config *pool)
{
    char what[160];
    snprintf(what, sizeof what, "%s on %u threads, %s, grain %u, spin %u, share %u, shuffle %u",
             c->name, pool->threads, pool->axis == SEER_AXIS_WORLDS ? "worlds" : "lanes",
             pool->grain, pool->spin_ns, pool->share, (unsigned)pool->shuffle);
    mix_columns columns;
    seer_engine *engine = mix_make(&c->options, pool, &columns);
    int code = mix_reset(engine, &c->options, 5);
    for (int s = 0; s < c->steps && code == 0; s++) code = stepped(engine);
    EQUAL(code, 0, "%s", what);
    if (code) {
        seer_fault fault;
        seer_engine_fault(engine, &fault);
        CHECK(0, "%s: %s, entity %u, kind %u", what, seer_strerror(fault.code), fault.entity,
              fault.kind);
    } else {
        seer_counters counters;
        uint64_t per_kind[MIX_KINDS];
        seer_engine_counters(engine, &counters, per_kind);
        EQUAL(counters.handled, x->totals.handled, "%s", what);
        EQUAL(counters.unhandled, x->totals.unhandled, "%s", what);
        EQUAL(counters.sent, x->totals.sent, "%s", what);
        for (int k = 0; k < MIX_KINDS; k++) EQUAL(per_kind[k], x->totals.per_kind[k], "%s", what);
        mix_pending pending = mix_export(engine, &c->options);
        mix_compare(&c->options, &x->columns, &columns, &x->pending, &pending, what);
        mix_free_pending(&pending);
    }
    seer_engine_free(engine);
    mix_free_columns(&columns);
}

static void one_case(const mix_case *c)
{
    static const uint32_t grains[] = {0, 1, 4, 16};
    expected x;
    mix_oracle(&c->options, 5, c->steps, &x.columns, &x.totals, &x.pending);
    CHECK(x.totals.handled > 30, "%s does too little: %" PRIu64 " events", c->name,
          x.totals.handled);
    for (uint32_t threads = 1; threads <= 4; threads++)
        for (uint32_t axis = 0; axis < 2; axis++)
            for (int g = 0; g < 4; g++)
                for (uint32_t turn = 0; turn < (long_run ? 8 : 2); turn++) {
                    /* The short run pairs spin, share and shuffle; the long one has all. */
                    if (axis == SEER_AXIS_WORLDS && grains[g] == 0) continue; /* lanes only */
                    uint32_t bits = long_run ? turn : turn ? 7u - g : (uint32_t)g;
                    seer_pool_config pool = {.threads = threads, .axis = axis, .grain = grains[g],
                                             .spin_ns = bits & 1 ? 20000 : 0, .share = bits >> 1 & 1,
                                             .shuffle = bits & 4 ? 77 + threads : 0};
                    one_pool(c, &x, &pool);
                    if (failures > 20) return;
                }
    int before = failures;
    printf("  %-20s %9" PRIu64 " events, %7" PRIu64 " dead, sum %016" PRIx64 "%s\n", c->name,
           x.totals.handled, x.totals.unhandled, mix_sum(&c->options, &x.columns, &x.pending),
           before ? " FAILED" : "");
    mix_free_columns(&x.columns);
    mix_free_pending(&x.pending);
}

static void mix_on_every_pool_gives_the_oracles_results(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases && failures < 20; i++) one_case(&cases[i]);
}

/* The pool may change between steps; a world reset anew gives the same again. */
static void mix_when_the_pool_changes_between_steps_is_the_same(void)
{
    const mix_case *c = &cases[6];
    expected x;
    mix_oracle(&c->options, 9, c->steps, &x.columns, &x.totals, &x.pending);
    seer_pool_config pool = {.threads = 1, .axis = SEER_AXIS_LANES};
    mix_columns columns;
    seer_engine *engine = mix_make(&c->options, &pool, &columns);
    for (int again = 0; again < 2; again++) {
        EQUAL(mix_reset(engine, &c->options, 9), 0, "reset");
        for (int s = 0; s < c->steps; s++) {
            pool.threads = 1 + (s + again) % 4;
            pool.axis = s & 1;
            pool.grain = 1 + s % 3;
            pool.share = s & 1;
            EQUAL(seer_engine_set_pool(engine, &pool), 0, "set_pool before step %d", s);
            EQUAL(stepped(engine), 0, "step %d", s);
        }
        mix_pending pending = mix_export(engine, &c->options);
        mix_compare(&c->options, &x.columns, &columns, &x.pending, &pending, "changed pools");
        mix_free_pending(&pending);
    }
    seer_engine_free(engine);
    mix_free_columns(&columns);
    mix_free_columns(&x.columns);
    mix_free_pending(&x.pending);
}

/* World i seeded with s equals a single world seeded with s + i. */
static void mix_world_equals_a_single_world_with_its_seed(void)
{
    mix_options many = cases[10].options, single = many;
    single.worlds = 1;
    seer_pool_config pool = {.threads = 2, .axis = SEER_AXIS_WORLDS, .grain = 2};
    mix_columns all, one;
    seer_engine *engine = mix_make(&many, &pool, &all), *alone = mix_make(&single, &pool, &one);
    EQUAL(mix_reset(engine, &many, 40), 0, "many");
    for (int s = 0; s < 3; s++) EQUAL(stepped(engine), 0, "many");
    for (uint32_t w = 0; w < many.worlds; w++) {
        EQUAL(mix_reset(alone, &single, 40 + w), 0, "world %u", w);
        for (int s = 0; s < 3; s++) EQUAL(stepped(alone), 0, "world %u", w);
        CHECK(!memcmp(one.hash, all.hash + w * many.entities, 8 * many.entities), "world %u", w);
    }
    seer_engine_free(engine);
    seer_engine_free(alone);
    mix_free_columns(&all);
    mix_free_columns(&one);
}

/* The comparison itself: what differs in a single place is found, and counts for the whole program. */
static void mix_compare_finds_what_differs(void)
{
    const mix_case *c = &cases[6];
    mix_columns one, other;
    mix_totals totals;
    mix_pending pending, less;
    mix_oracle(&c->options, 9, 2, &one, &totals, &pending);
    mix_oracle(&c->options, 9, 2, &other, &totals, &less);
    int before = failures;
    mix_compare(&c->options, &one, &other, &pending, &less, "the same");
    EQUAL(failures, before, "two runs of the oracle");
    fprintf(stderr, "two failures that are meant:\n");
    other.hash[17] ^= 1;
    less.events[3].sequence++;
    mix_compare(&c->options, &one, &other, &pending, &less, "spoilt");
    int found = failures - before;
    failures = before;
    EQUAL(found, 2, "differences found");
    mix_free_columns(&one), mix_free_columns(&other);
    mix_free_pending(&pending), mix_free_pending(&less);
}

int main(int argc, char **argv)
{
    long_run = argc > 1 && !strcmp(argv[1], "long");
    TEST(mix_compare_finds_what_differs);
    TEST(mix_on_every_pool_gives_the_oracles_results);
    TEST(mix_when_the_pool_changes_between_steps_is_the_same);
    TEST(mix_world_equals_a_single_world_with_its_seed);
    return failures != 0;
}
