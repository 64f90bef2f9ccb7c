/* seer.h - the event engine: everything that Python or a handler may call.
 *
 * One engine holds any number of worlds; a world is a fixed set of entities with
 * state in columns and one lane of pending events each. A step runs sweeps
 * (uniform work over a group) and windows (stretches of simulated time in which
 * lanes are independent) on a pool of threads. The results do not depend on the
 * pool. Functions taking a seer_ctx are for handlers, on the thread that called
 * the handler; all others are for one thread at a time per engine.
 *
 * Functions return 0 or a negative seer_error unless they say otherwise.
 */
#ifndef SEER_H
#define SEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SEER_LAYOUT 1                /* bumped when a struct below changes */
#define SEER_NEVER INT64_MAX         /* the time of an event that is not there */
#define SEER_TIME_MAX (INT64_C(1) << 61) /* no event may lie beyond this tick */
#define SEER_NONE UINT32_MAX

enum seer_error {
    SEER_OK = 0,
    SEER_ENOMEM,     /* memory could not be had */
    SEER_EINVAL,     /* a description or an argument is not legal */
    SEER_EBUSY,      /* the engine is already stepping */
    SEER_EFORKED,    /* the process was forked while this engine was stepping */
    SEER_ESTATE,     /* only reset and close are legal now */
    SEER_EHANDLER,   /* a handler returned 0 */
    SEER_EFAIL,      /* a model called seer_fail; see user_code */
    SEER_ECAUSALITY, /* sent to another entity sooner than the lookahead */
    SEER_EPAST,      /* sent into the past */
    SEER_ETIME,      /* a delay that is not finite or passes SEER_TIME_MAX */
    SEER_ETARGET,    /* no such entity */
    SEER_EKIND,      /* no such event kind */
    SEER_ELANE,      /* a lane holds more events than its capacity */
    SEER_EWORLD,     /* a world holds more events than its capacity */
    SEER_ESTEP,      /* a step handled more events than its capacity */
    SEER_EROUNDS,    /* too many rounds at one instant */
    SEER_ESEQUENCE,  /* an entity sent 2^32 - 1 events in one episode */
    SEER_ECOUNT
};

#define SEER_AGAIN 1 /* seer_engine_step, _reset: let signals run, then call _continue */

/* An event; the order within a lane is (time, round, source, sequence). */
typedef struct seer_event {
    int64_t time;      /* ticks */
    uint32_t source;   /* entity that sent it */
    uint32_t sequence; /* how many events the source had sent before */
    uint32_t target;   /* entity that handles it */
    uint16_t kind;
    uint16_t round;    /* 0 unless sent for the present instant */
    uint64_t payload;  /* 8 bytes of the kind's fields, or a slot when it is wide */
} seer_event;

#define SEER_WIDE_BYTES 40 /* payload of a wide kind */

/* What a handler is given. The public head of a worker's state. */
typedef struct seer_ctx {
    int64_t now;              /* ticks */
    uint32_t entity;          /* source of what is sent and drawn; a sweep sets it per row */
    uint32_t round;           /* round of the event being handled, 0 in a sweep */
    uint32_t world;
    uint32_t entities;        /* per world */
    char *const *columns;     /* [2c] latest, [2c+1] published, of this world; row = entity id */
    const uint64_t *params;   /* 8 bytes each: int64 or double, as declared */
    const double *totals;     /* reductions of this world */
    const uint32_t *found;    /* ids found by the last seer_near */
    double seconds_per_tick;
    int64_t step;             /* steps since reset: the one that is running */
} seer_ctx;

/* 1 for success, 0 for failure. payload points to the kind's fields. */
typedef int32_t (*seer_handler_fn)(seer_ctx *ctx, int64_t entity, const seer_event *event,
                                   const void *payload);
/* Rows [first, last) of the sweep's group, as entity ids. 1 or 0. */
typedef int32_t (*seer_sweep_fn)(seer_ctx *ctx, int64_t first, int64_t last);

/* ---- describing a model ------------------------------------------------ */

typedef struct seer_group {
    uint32_t first, count; /* entity ids [first, first + count) */
} seer_group;

typedef struct seer_column {
    void *latest;        /* (worlds, group.count, row_bytes), 64-byte aligned */
    void *seen;          /* the same for a published column, else NULL */
    const void *initial; /* one row put in place at reset; NULL is zeros */
    uint32_t row_bytes;
    uint32_t group;
} seer_column;

/* The first columns are built in and span all entities. */
enum { SEER_COL_ALIVE = 0,  /* uint8, published */
       SEER_COL_ACTED = 1,  /* uint8: alive when the step began */
       SEER_COL_DRAWS = 2,  /* uint64: numbers drawn in this episode */
       SEER_COL_FIRST = 3 };

enum { SEER_KIND_EVEN_IF_DEAD = 1, SEER_KIND_WIDE = 2 };

typedef struct seer_kind {
    seer_handler_fn handler; /* NULL: events of this kind are counted and dropped */
    uint32_t flags;
} seer_kind;

enum { SEER_SWEEP_ON_STEP = 1, SEER_SWEEP_ON_RESET = 2 };

typedef struct seer_sweep {
    seer_sweep_fn fn;
    int64_t offset;  /* ticks into the step, [0, step] */
    uint64_t writes; /* bit c: may write column c */
    uint32_t group;
    uint32_t flags;
} seer_sweep;

enum { SEER_SUM = 0, SEER_MEAN = 1, SEER_MIN = 2, SEER_MAX = 3, SEER_ARGMIN = 4, SEER_ARGMAX = 5 };
enum { SEER_U8 = 0, SEER_I32 = 1, SEER_I64 = 2, SEER_F32 = 3, SEER_F64 = 4 };

/* A reduction over a column's latest values, in blocks of 256 entities combined in
 * index order, redone where the engine publishes. NaN for a mean over nobody. */
typedef struct seer_total {
    uint32_t op, column, dtype, item; /* item: which component of the row */
    uint32_t alive_only;
} seer_total;

/* Cells over a published float64 column of 2 or 3 components (cells use the first two).
 * Lists the group's live entities, in id order within a cell; rebuilt when published. */
typedef struct seer_grid {
    uint32_t column, group, components;
    double low[2], high[2]; /* entities outside are listed in the border cells */
    double cell;            /* > 0; enlarged where there would be over 4 cells an entity */
} seer_grid;

typedef struct seer_model {
    uint32_t layout; /* SEER_LAYOUT */
    uint32_t worlds, entities;
    uint32_t groups, columns, kinds, sweeps, totals, grids, params;
    const seer_group *group;
    const seer_column *column;
    const seer_kind *kind;
    const seer_sweep *sweep; /* in order of declaration */
    const seer_total *total;
    const seer_grid *grid;
    const uint64_t *param;
    uint64_t handler_writes; /* bit c: some handler may write column c */
    int64_t lookahead, step; /* ticks */
    double seconds_per_tick;
    uint32_t max_rounds;
    uint32_t lane_capacity;
    uint64_t world_capacity, step_capacity;
} seer_model;

/* ---- the pool ------------------------------------------------------------ */

enum { SEER_AXIS_WORLDS = 0, SEER_AXIS_LANES = 1 };

typedef struct seer_pool_config {
    uint32_t threads; /* 1 .. SEER_MAX_THREADS, the caller's included */
    uint32_t axis;
    uint32_t grain;   /* worlds a claim; or lanes a shard, rounded up to a power of two, 0: automatic */
    uint32_t spin_ns; /* how long a worker waits before it sleeps */
    uint32_t pin;     /* 1: worker k on the k-th usable CPU */
    uint32_t share;   /* 1: threads take part in every window and sweep, however small */
    uint64_t shuffle; /* not 0: claims are tried in an order drawn from this, for tests */
} seer_pool_config;

#define SEER_MAX_THREADS 64

/* ---- the engine ---------------------------------------------------------- */

typedef struct seer_engine seer_engine;

/* What went wrong: the smallest by (world, time, entity); others counts the rest. */
typedef struct seer_fault {
    int32_t code;      /* a seer_error, positive */
    int32_t user_code; /* of seer_fail */
    uint32_t world, entity, source, sequence, target;
    uint32_t kind;     /* of the event that was refused or failed, or SEER_NONE */
    uint32_t sweep;    /* the sweep that was running, or SEER_NONE */
    uint32_t handler;  /* the kind whose handler was running, or SEER_NONE */
    uint32_t round;
    int64_t time;      /* when, ticks */
    int64_t event_time; /* of the event that was refused, ticks */
    int64_t limit;     /* the capacity or lookahead that was passed */
    double value;      /* of a delay that is no number of ticks */
    uint64_t others;
} seer_fault;

typedef struct seer_counters {
    uint64_t handled, unhandled; /* unhandled: for dead entities */
    uint64_t sent, mailed;       /* mailed: crossed to another shard */
    uint64_t windows, rounds, sweeps, shared; /* shared: phases run by several threads */
    uint64_t steals, cas_retries, spins, sleeps, wakes;
} seer_counters;

/* NULL, with *error set, when the description is not legal or memory is short. Copies the
 * description; the columns stay the caller's and must outlive the engine. */
seer_engine *seer_engine_new(const seer_model *model, const seer_pool_config *pool, int *error);
/* Waits for workers that still look at this engine. Not while it is stepping. */
void seer_engine_free(seer_engine *engine);
/* Between steps. Never changes results. */
int seer_engine_set_pool(seer_engine *engine, const seer_pool_config *pool);

/* mask: (worlds,) uint8, which worlds take part; NULL is all. seeds, episodes: (worlds,),
 * read for those. Both return 0, SEER_AGAIN or an error; after an error seer_engine_fault tells more. */
int seer_engine_reset(seer_engine *engine, const uint8_t *mask, const uint64_t *seeds,
                      const uint64_t *episodes);
int seer_engine_step(seer_engine *engine, const uint8_t *mask);
int seer_engine_continue(seer_engine *engine);
/* Gives up a step that returned SEER_AGAIN; then only reset and close are legal. */
void seer_engine_abandon(seer_engine *engine);
/* From now on every world that ends a step or a reset copies its rows of a column to `copy`, laid
 * out as the column, while they are in the worker's cache; but a row whose byte in `present`,
 * (worlds, rows of the column's group), is 0 gets `filler`, (row_bytes,). NULL for `present`: all
 * are. NULL for `copy`: no more. Between steps; what is given must outlive them. */
int seer_engine_mirror(seer_engine *engine, uint32_t column, void *copy, const uint8_t *present,
                       const void *filler);

void seer_engine_fault(const seer_engine *engine, seer_fault *out);
void seer_engine_counters(const seer_engine *engine, seer_counters *out, uint64_t *per_kind);
int64_t seer_engine_tick(const seer_engine *engine, uint32_t world); /* start of the next step */
int64_t seer_engine_steps(const seer_engine *engine, uint32_t world);
void seer_engine_seed(const seer_engine *engine, uint32_t world, uint64_t *seed, uint64_t *episode);

/* Pending events of a world, lane by lane in order. _pending counts them; _export writes
 * events (n,), wide payloads (n, 40 bytes), lane lengths (entities,), sequence counters
 * (entities,). _import replaces the world's pending events and clock by such a record; events
 * out of order or out of range are SEER_EINVAL, and the world is then left empty. */
uint64_t seer_engine_pending(const seer_engine *engine, uint32_t world);
void seer_engine_export(const seer_engine *engine, uint32_t world, seer_event *events, char *wide,
                        uint32_t *lengths, uint32_t *sequences);
int seer_engine_import(seer_engine *engine, uint32_t world, const seer_event *events,
                       const char *wide, const uint32_t *lengths, const uint32_t *sequences,
                       int64_t steps, uint64_t seed, uint64_t episode);
/* Bytes held by the engine itself, columns apart. */
uint64_t seer_engine_memory(const seer_engine *engine);
const char *seer_strerror(int code);

/* ---- for handlers --------------------------------------------------------- */

/* Send to an entity after a delay in ticks or seconds (rounded half to even). 1, or 0 when the
 * event is refused; the refusal is reported when the handler returns. */
int32_t seer_send(seer_ctx *ctx, uint32_t kind, int64_t to, int64_t ticks, uint64_t payload);
int32_t seer_send_seconds(seer_ctx *ctx, uint32_t kind, int64_t to, double delay, uint64_t payload);
/* payload: SEER_WIDE_BYTES bytes, for a wide kind. */
int32_t seer_send_wide(seer_ctx *ctx, uint32_t kind, int64_t to, int64_t ticks, const void *payload);
int32_t seer_send_wide_seconds(seer_ctx *ctx, uint32_t kind, int64_t to, double delay,
                               const void *payload);
/* Draw from ctx->entity's stream: 64 bits; [0, 1); standard normal. */
uint64_t seer_bits(seer_ctx *ctx);
double seer_uniform(seer_ctx *ctx);
double seer_normal(seer_ctx *ctx);
/* Entities of a grid within radius (inclusive) of a point, by published positions, cell by
 * cell in row order and by id within a cell; ids in ctx->found. z is ignored for 2 components. */
int64_t seer_near(seer_ctx *ctx, uint32_t grid, double x, double y, double z, double radius);
/* Report a failure of an entity; code is the model's own. */
void seer_fail(seer_ctx *ctx, int64_t entity, int32_t code);

/* The keys behind the draws, for other implementations: draw n of entity e in a world is
 * seer_draw(seer_world_key(seed, episode), e, n). */
uint64_t seer_world_key(uint64_t seed, uint64_t episode);
uint64_t seer_draw(uint64_t world_key, uint32_t entity, uint64_t n);
double seer_to_uniform(uint64_t bits);
double seer_to_normal(uint64_t bits1, uint64_t bits2); /* Box and Muller 1958 */

/* libm by one door, so that compiled and plain handlers give equal bits. */
double seer_exp(double x);
double seer_log(double x);
double seer_log10(double x);
double seer_pow(double x, double y);
double seer_sin(double x);
double seer_cos(double x);
double seer_atan2(double y, double x);
double seer_hypot(double x, double y);

/* ---- between processes ------------------------------------------------------ */

/* Memory that a caller shares with its workers (mapped by both, zero at first, aligned to
 * SEER_WIRE_APART). A bell takes SEER_WIRE_APART bytes, a result SEER_RESULT_BYTES, a command or
 * a counter of tickets is a uint64_t. What different processes write belongs SEER_WIRE_APART
 * bytes apart. All waits return at the latest after timeout_ns, or when a signal comes. */
#define SEER_WIRE_APART 128
#define SEER_RESULT_BYTES 16 /* the number of the command that is done, and the ticket */

/* How long a waiter spins before it sleeps: at most most_ns, less where spinning was in vain. A
 * waiter keeps one for itself, with most_ns set and the rest 0. */
typedef struct seer_spin {
    int64_t most_ns;
    int64_t now_ns;
    uint64_t waits;
} seer_spin;

/* Set a bell that one process rings, and wake who sleeps on it. 1 if somebody had to be woken. */
int32_t seer_bell_ring(void *bell, uint64_t value);
uint64_t seer_bell_value(const void *bell);
/* Wait until a bell is no longer `seen`: spins a little, then sleeps. The bell's value. */
uint64_t seer_bell_wait(void *bell, uint64_t seen, seer_spin *spin, int64_t timeout_ns);
/* A word for one writer: what was written before _put is visible after a _get that sees it. */
void seer_word_put(void *word, uint64_t value);
uint64_t seer_word_get(const void *word);
/* Say that command `number` is done: takes a ticket and adds 1 to the collector's bell. The
 * collector is woken when it has what it waits for, or at once if urgent. 1 if it was woken. */
int32_t seer_result_publish(void *result, uint64_t number, void *tickets, void *collector,
                            int32_t urgent);
/* Wait until `count` of n results, at base + where[k], say wanted[k], or until one is urgent.
 * ready (n,) tells which do; `urgent` holds how many urgent ones were seen. How many are ready. */
int32_t seer_result_gather(void *collector, char *base, const uint64_t *where,
                           const uint64_t *wanted, uint32_t n, uint32_t count, seer_spin *spin,
                           int64_t timeout_ns, uint8_t *ready, uint32_t *urgent);
/* Of n commands (n,) and results, `stride` bytes each, the one with the least number that is greater
 * than that of its result: its index, or -1. */
int32_t seer_command_oldest(const char *commands, const char *results, uint64_t stride, uint32_t n);
/* Start a thread that kills this process, and its process group if it leads one, when `caller`
 * becomes readable (a pidfd of a process that ended) or `channel` hangs up; -1 for either.
 * Returns 0, or the errno of what went wrong. */
int32_t seer_watch(int32_t caller, int32_t channel);

#ifdef __cplusplus
}
#endif
#endif
