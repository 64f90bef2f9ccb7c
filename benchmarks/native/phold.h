/* phold.h - the PHOLD workload (Fujimoto 1990) and two ways to run it.
 *
 * Every entity has `each` events under way. Handling one updates a checksum, does `work`
 * rounds of arithmetic and sends the next: to a random entity with probability `remote`,
 * else to itself, after lookahead + 1 + an exponential delay with a mean of one unit.
 * The generator lives in the entity's own 64-byte row, so the run depends on nothing but
 * the order in which an entity handles its events. Built as a program (main) or loaded
 * as a shared library. One run at a time: the parameters are global.
 */
#ifndef SEER_PHOLD_H
#define SEER_PHOLD_H

#include <stdint.h>

#include "seer.h"

#define PHOLD_UNIT 1000000 /* ticks in a unit of time */

typedef struct phold_params {
    uint32_t entities, each;
    double lookahead; /* units */
    double remote;    /* probability of sending to a random entity */
    uint32_t work;    /* rounds of arithmetic an event */
    uint32_t hot;     /* entities [0, hot) are the hot block */
    double skew;      /* share of all work done by the hot block, by longer work; 0: even */
    double skew_events; /* share of random targets that fall into the hot block; 0: even */
    double step;      /* units in a step of the engine */
    uint32_t steps;   /* the run covers [0, steps * step) */
} phold_params;

typedef struct phold_result {
    double ns, cpu_ns; /* wall and processor time of the run, set-up apart */
    uint64_t events, checksum;
    uint64_t windows, shared, steals, cas_retries, sleeps, wakes;
} phold_result;

/* Sequential: one binary heap of 32-byte records in the order (time, source, sequence). */
void phold_heap(const phold_params *params, phold_result *result);

/* The same on the engine. NULL with a message on stderr if it can't be made. */
typedef struct phold_engine phold_engine;
phold_engine *phold_engine_new(const phold_params *params, const seer_pool_config *pool);
int phold_engine_run(phold_engine *engine, phold_result *result); /* 0 or a negative seer_error */
void phold_engine_free(phold_engine *engine);

/* ns of one round of arithmetic on this machine. */
double phold_round_ns(void);

#endif
