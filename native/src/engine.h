/* engine.h - what an engine is made of, for the files behind seer.h.
 *
 * Who may touch what: a shard, its lanes and the rows of its entities belong to the holder of its
 * claim; a world to the closer of a phase (the one worker between two phases); a worker's state
 * to that worker; everything else is fixed while a step runs. */
#ifndef SEER_ENGINE_H
#define SEER_ENGINE_H

#include "shard.h"
#include "waiter.h"

#define SEER_COLUMNS_MAX 64
#define SEER_NEAR_WIDTH 4 /* candidates looked at together; arrays have room for as many more */
#ifndef SEER_CALL_NS
#define SEER_CALL_NS 20000000 /* after which a call returns to let signals run */
#endif

enum seer_phase_kind { SEER_PHASE_END, SEER_PHASE_PAUSE, SEER_PHASE_WINDOW, SEER_PHASE_SWEEP,
                       SEER_PHASE_PUBLISH, SEER_PHASE_FILE };

/* What the workers do between two agreements. */
typedef struct seer_phase {
    uint32_t kind, world;
    uint32_t sweep;    /* SWEEP */
    uint32_t round;    /* WINDOW with lookahead 0 */
    uint64_t bucket;   /* WINDOW */
    int64_t limit;     /* WINDOW: events before it; with lookahead 0, at it   SWEEP: its time */
    uint64_t mask;     /* PUBLISH: columns */
} seer_phase;

/* Whether a phase is one of those that faults are told apart by (seer_world.tag). */
static inline uint32_t seer_moves(const seer_phase *phase)
{
    return phase->kind == SEER_PHASE_WINDOW || phase->kind == SEER_PHASE_SWEEP;
}

#define SEER_LEFT (UINT32_C(1) << 31)
#ifndef SEER_TOLD_MAX
#define SEER_TOLD_MAX (UINT64_C(1) << 30) /* events that a worker tells of in its slot */
#endif

enum { SEER_SWEEPS_MAX = 1 << 12 }; /* so that a phase fits into two words */

/* What all workers watch, in one line: two bulletins, used in turn, and the word that sleepers wait
 * on. A bulletin that is being rewritten has number 0, so that a reader who comes late does not take
 * half of one phase for the other. */
typedef struct seer_board {
    struct seer_bulletin {
        _Alignas(8) SEER_ATOMIC(uint64_t) number;
        SEER_ATOMIC(uint64_t) what;  /* kind << 60 | sweep << 48 | round << 32 | world */
        SEER_ATOMIC(uint64_t) value; /* limit, or mask of PUBLISH */
    } bulletin[2]; /* W: closer  R: workers */
    seer_word phase; /* the number that is open. W: closer */
} seer_board;

_Static_assert(sizeof(seer_board) == 64, "a phase is handed over in one line");

/* What the workers of a phase tell its closer: in one line for up to three workers. */
typedef struct seer_gather {
    _Alignas(SEER_APART) SEER_ATOMIC(uint64_t) done; /* shards finished; W: workers (add) */
    SEER_ATOMIC(uint32_t) more; /* 1: handled_more, sent_more */
    struct {
        SEER_ATOMIC(uint64_t) key;      /* bid: least bucket (lookahead 0: tick) of what is pending */
        SEER_ATOMIC(uint32_t) handled;  /* 1 + events; 0: took no part */
        SEER_ATOMIC(uint32_t) sent;     /* SEER_LEFT: mail, or a lane that may be too full */
    } slot[SEER_MAX_THREADS]; /* W: worker k, then the closer */
    SEER_ATOMIC(uint32_t) round[SEER_MAX_THREADS]; /* of a bid with lookahead 0 */
    SEER_ATOMIC(uint64_t) handled_more, sent_more; /* what the slots have no room for */
} seer_gather;

typedef struct seer_cell_item {
    double at[3];
    uint32_t entity, pad;
} seer_cell_item;

typedef struct seer_cells { /* one grid of one world */
    uint32_t *start;       /* (rows * columns + 1,) into item */
    seer_cell_item *item;  /* (group count,) */
} seer_cells;

typedef struct seer_grid_plan {
    seer_grid of;
    uint32_t nx, ny;
    double inverse, pad; /* 1 / cell; how far a query's box is widened against rounding */
} seer_grid_plan;

enum { SEER_RUN_STEP = 0, SEER_RUN_RESET = 1 };

/* An entry of the list of sweeps that a step or a reset goes through. */
typedef struct seer_stop {
    int64_t offset; /* ticks */
    uint32_t sweep;
} seer_stop;

/* A worker's batch for one shard, with its first events beside it: two lines that the shard's owner
 * fetches ahead. */
typedef struct seer_outbox {
    _Alignas(SEER_APART) seer_batch batch;
    seer_event *more;      /* a larger array for the events, once they were many; or NULL */
    seer_event first[2];
} seer_outbox;

typedef struct seer_world {
    uint64_t seed, episode, key; /* key: of the random numbers */
    int64_t tick, steps;   /* where the next step begins; steps since reset */
    uint64_t pending;      /* events, all lanes */
    uint64_t handled;      /* events of this step */
    int64_t finished;      /* all events before this tick are handled */
    uint64_t bid;          /* bucket or tick of the next event, UINT64_MAX if there is none */
    uint32_t bid_round;
    uint32_t stop;         /* next entry of the list of sweeps */
    uint32_t tag;          /* windows and sweeps so far in this call: which faults came first */
    uint64_t dirty;        /* columns that may differ from what is published */
    uint8_t swept;         /* a sweep has ended and nothing was published since */
    uint8_t copied;        /* a phase has copied what is dirty; grids and totals are still to do */
    uint8_t restored;      /* the state came from outside: grids and totals are of another one */
    uint8_t mailed;        /* mailboxes may hold something, or lanes be too full */
    uint8_t busy;          /* taking part in the running call, not yet through */
    uint8_t failed, begun;
    seer_cells *cells;     /* (grids,) */
    double *totals;        /* (totals,) */
    seer_shard *shards;    /* (engine->shards,) */
} seer_world;

typedef struct seer_worker {
    _Alignas(SEER_APART) seer_ctx ctx; /* first: a handler's ctx is the worker */
    seer_engine *engine;
    seer_world *world;
    seer_shard *shard;       /* the one held */
    /* of the world: what does not change while it is stepped, away from what its closer writes */
    seer_lane *lanes;
    seer_shard *shards;
    const seer_cells *cells;
    uint64_t key;
    uint32_t running;        /* entity whose event is being handled, else SEER_NONE */
    uint32_t index;
    uint32_t alone;          /* holds every shard of the world */
    uint32_t refused;        /* 1 + the last entity that had something refused, 0 for none */
    uint32_t reported;       /* a fault since the world's last phase */
    uint32_t until_look, look_every; /* as closer: phases until the next look at the clock */
    int64_t looked;          /* ns */
    uint32_t sweep, kind;    /* what runs, SEER_NONE otherwise */
    uint32_t left;           /* SEER_LEFT once it is so in this phase */
    uint32_t rest;           /* 1: what is reported was so before the running phase began */
    uint32_t fault_tag;      /* the world's tag when the kept fault happened */
    uint64_t call;           /* that the table was made for */
    uint32_t shift;          /* entity >> shift is its shard */
    /* since the last agreement */
    uint64_t bid;
    uint64_t handled, sent;
    uint32_t bid_round;
    uint32_t parity;         /* of the outboxes being filled */
    uint32_t letters;        /* batches with something in them */
    uint32_t *addressee;     /* (shards,) their shards */
    seer_outbox *outbox[2];  /* (shards,) each, by parity of the phase */
    uint32_t *ids;           /* (shard's lanes,) scratch of a window */
    uint32_t *found;         /* (entities,) scratch of seer_near */
    char **table;            /* (2 * columns,) behind ctx.columns */
    seer_fault fault;        /* the smallest of this call */
    seer_counters counters;
    uint64_t *per_kind;      /* (kinds,) events handled */
    char *ahead[2];          /* columns whose rows are fetched ahead, and their rows' sizes */
    uint32_t ahead_bytes[2];
    uint32_t heaviest;       /* the shard of its home that had most events lately */
    uint64_t shuffle;
} seer_worker;

/* Whether small windows are better shared or run by the closer: measured, both in turn. */
typedef struct seer_tuner {
    uint32_t on, shared;     /* the meter runs; the way of the running segment */
    int64_t since, spent;    /* ns */
    uint64_t from, events;   /* handled when the meter was switched on; in the segment */
    double ns[2];            /* an event: alone, shared; 0 is not yet known */
    uint32_t left, warming;  /* windows until the segment ends; it is not measured */
    uint32_t until_probe;    /* segments */
    uint32_t waited;         /* for helpers, while warming */
} seer_tuner;

/* The same for a sweep, which is measured each time it runs. */
typedef struct seer_sweep_tuner {
    double ns[2];            /* alone, shared: running means; 0 is not yet known */
    uint32_t until_probe;    /* sweeps */
} seer_sweep_tuner;

struct seer_engine {
    seer_model model;        /* with copies of all its arrays */
    seer_pool_config pool;
    seer_buckets buckets;
    seer_grid_plan *grids;
    struct {
        void *copy;          /* of the column's rows; NULL: none is made */
        const uint8_t *present;
        const void *filler;
        uint32_t column;
    } mirror;
    seer_stop *stops[2];     /* by SEER_RUN_ */
    uint32_t stop_count[2];
    uint32_t shards, shift;  /* a world: shards of 1 << shift lanes */
    uint32_t threads;        /* pool.threads */
    uint8_t *alive, *acted;
    uint64_t *draws;
    uint64_t row_ahead;      /* columns whose rows a window fetches ahead */
    seer_world *world;       /* (worlds,) */
    seer_worker *worker;     /* (threads,) */
    seer_lane *lanes;        /* (worlds, entities) */
    uint64_t *maps;          /* of all shards */
    seer_shard *all_shards;
    seer_outbox *outboxes;   /* (threads, 2, shards) */
    uint32_t copied;         /* model's arrays are copies */
    uint32_t fine;           /* shards were made smaller by seer_refine */
    uint64_t bytes, pool_bytes; /* all; of it workers and shards */

    seer_counters counters_before; /* of earlier pools */
    uint64_t *per_kind_before;     /* (kinds,) */

    /* the running call. W: caller, before anybody helps */
    _Alignas(SEER_APART) uint64_t call; /* counts them */
    uint32_t run;            /* SEER_RUN_ */
    uint32_t sharing;        /* phases may be shared */
    uint32_t failed;         /* only reset and close are legal */
    uint32_t paused;
    int64_t deadline;        /* ns: when to return to let signals run */
    SEER_ATOMIC(uint32_t) stepping; /* 1 + forks before the running call, else 0. W: callers (CAS) */
    SEER_ATOMIC(uint32_t) fault_seen; /* W: workers  R: closer */
    SEER_ATOMIC(uint32_t) pause_wanted; /* worlds axis. W: caller  R: workers */
    seer_fault fault;

    /* the closer's */
    _Alignas(SEER_APART) uint64_t phase_number; /* that is open */
    uint64_t handled_before; /* events of worlds that are through: for the tuner */
    int64_t opened;          /* ns: when the open phase was opened */
    SEER_ATOMIC(uint64_t) present; /* bit k: worker k took part in the last shared phase */
    seer_tuner windows;
    seer_sweep_tuner *sweeps; /* (sweeps,) */

    _Alignas(SEER_APART) seer_board board;
    seer_gather gather;
    _Alignas(SEER_APART) seer_word completed; /* worlds axis: blocks finished in this call */
    struct {
        _Alignas(SEER_APART) seer_range range; /* worlds axis */
    } home[SEER_MAX_THREADS];
};

/* window.c: one phase on one shard, held by the worker. */
void seer_run_shard(seer_worker *worker, seer_shard *shard, const seer_phase *phase);
void seer_enter_world(seer_worker *worker, seer_world *world);
/* At rest: reports the lanes that hold more than their capacity. */
void seer_find_crowded(seer_worker *worker, seer_shard *shard, uint32_t rest);
/* Lowers the worker's bid to the shard's next event. */
void seer_bid(seer_worker *worker, const seer_shard *shard);

/* send.c: keep the smallest fault; faults of a later phase of the world do not count. */
void seer_report(seer_worker *worker, const seer_fault *fault);
void seer_merge_fault(seer_fault *kept, const seer_fault *fault);
void seer_mail_out(seer_worker *worker);

/* publish.c: copy what is dirty where others see it; (re)build grids and totals. */
void seer_publish_rows(seer_engine *engine, seer_world *world, uint64_t mask, uint32_t first,
                       uint32_t last);
void seer_publish_derived(seer_engine *engine, seer_world *world, uint64_t mask);
uint64_t seer_unlike_published(seer_engine *engine, seer_world *world);
int seer_all_as_alive(const seer_engine *engine, const seer_world *world); /* as was published */

/* grid.c */
int seer_grid_plan_of(const seer_grid *grid, uint32_t count, seer_grid_plan *plan);
void seer_grid_build(seer_engine *engine, seer_world *world, uint32_t grid);

/* build.c: makes smaller shards, for work that has proved to be long; between steps. */
int seer_refine(seer_engine *engine);
/* Empties a world's lanes and puts its columns to their initial values. */
void seer_clear_world(seer_engine *engine, seer_world *world, uint64_t seed, uint64_t episode);

/* state.c: replaces a world's pending events by these, lane by lane in order. */
int seer_file_all(seer_engine *engine, seer_world *world, const seer_event *events, const char *wide,
                  const uint32_t *lengths, const uint32_t *sequences);

/* engine.c: enters the engine, one call at a time: 0, or -SEER_EBUSY, or -SEER_EFORKED when the call
 * that has it was left behind by a fork; and leaves it, returning the code. */
int seer_engine_enter(seer_engine *engine);
int seer_engine_leave(seer_engine *engine, int code);
void seer_engine_help(seer_engine *engine, uint32_t index); /* a pool's worker lends a hand */

static inline void seer_lower_bid(seer_worker *worker, uint64_t key, uint32_t round)
{
    if (key > worker->bid || (key == worker->bid && round >= worker->bid_round)) return;
    worker->bid = key;
    worker->bid_round = round;
}

static inline uint32_t seer_world_index(const seer_engine *engine, const seer_world *world)
{
    return (uint32_t)(world - engine->world);
}

/* The address that entity id 0 would have in a column of a world. */
static inline char *seer_rows(const seer_engine *engine, uint32_t world, uint32_t column, void *base)
{
    const seer_column *c = &engine->model.column[column];
    const seer_group *g = &engine->model.group[c->group];
    uintptr_t rows = (uintptr_t)base + (uintptr_t)world * g->count * c->row_bytes;
    return (char *)(rows - (uintptr_t)g->first * c->row_bytes);
}

int64_t seer_clock(void); /* ns, monotonic */

#endif
