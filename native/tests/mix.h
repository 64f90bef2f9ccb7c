/* mix.h - a random model that uses all the ways to send, and a plain oracle that runs it too.
 *
 * What an entity does is written once against a small table of operations; the engine's
 * handlers and the oracle fill it in differently. The hash of an entity covers every event that it
 * handled, in order, and what it saw of others. */
#ifndef SEER_MIX_H
#define SEER_MIX_H

#include "check.h"

enum { MIX_HASH = SEER_COL_FIRST, MIX_SHOWN, MIX_COLUMNS };
enum { MIX_TOKEN, MIX_LETTER, MIX_GHOST, MIX_KINDS }; /* letters are wide, ghosts reach the dead */
enum { MIX_START, MIX_BEGIN, MIX_MIDDLE, MIX_END, MIX_SWEEPS };

typedef struct mix_options {
    uint32_t worlds, entities;
    int64_t lookahead, step; /* ticks */
    uint32_t tokens;  /* each entity starts with; they live for ever */
    uint32_t remote;  /* of 256 sends go to another entity */
    uint32_t burst;   /* of 256 events are followed by three short-lived ones */
    uint32_t instant; /* of 256 sends are for the present instant */
    uint32_t far;     /* of 256 sends go far ahead, beyond any calendar's ring */
    uint32_t death;   /* of 65536 events kill their entity */
    uint32_t work;    /* rounds of useless mixing an event */
    uint32_t uneven;  /* of 256 remote sends go to the first sixteenth of the entities */
} mix_options;

/* A bit of everything, for tests that are not about the model. */
#define MIX_USUAL                                                                                 \
    {.worlds = 3, .entities = 48, .lookahead = 1000, .step = 15000, .tokens = 2, .remote = 90,    \
     .burst = 20, .instant = 20, .far = 10, .death = 200}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 10 /* how much less to do */
#else
#define SLOW 1
#endif

typedef struct mix_columns { /* (worlds, entities) each */
    uint8_t *alive, *alive_seen, *acted;
    uint64_t *draws, *hash, *shown, *shown_seen;
} mix_columns;

typedef struct mix_totals {
    uint64_t handled, unhandled, sent, per_kind[MIX_KINDS];
} mix_totals;

/* What is left pending, world by world and lane by lane. */
typedef struct mix_pending {
    uint64_t count;
    seer_event *events;  /* (count,) */
    char *wide;          /* (count, SEER_WIDE_BYTES) */
    uint32_t *lengths;   /* (worlds, entities) */
    uint32_t *sequences; /* (worlds, entities) */
} mix_pending;

/* Seeds of world i are seed + i, the episode is 0. Nobody is reset by mix_make. */
seer_engine *mix_make(const mix_options *options, const seer_pool_config *pool, mix_columns *columns);
int mix_reset(seer_engine *engine, const mix_options *options, uint64_t seed);
void mix_free_columns(mix_columns *columns);
mix_pending mix_export(seer_engine *engine, const mix_options *options);
void mix_free_pending(mix_pending *pending);

/* Runs the model for some steps by a heap in the order (time, round, source, sequence). */
void mix_oracle(const mix_options *options, uint64_t seed, int steps, mix_columns *columns,
                mix_totals *totals, mix_pending *pending);

/* Checks that two runs ended alike in all but place in memory. `what` names the second one. */
void mix_compare(const mix_options *options, const mix_columns *wanted, const mix_columns *got,
                 const mix_pending *wanted_pending, const mix_pending *got_pending,
                 const char *what);
uint64_t mix_sum(const mix_options *options, const mix_columns *columns, const mix_pending *pending);

#endif
