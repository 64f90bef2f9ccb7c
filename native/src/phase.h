/* phase.h - what comes next in a world, and whether it is worth sharing. */
#ifndef SEER_PHASE_H
#define SEER_PHASE_H

#include "engine.h"

/* Makes a world ready for the running call; with the worker that will decide its first phase. */
void seer_begin_world(seer_worker *worker, seer_world *world);
/* The next phase of a world whose last one is over and whose bid is known. Publishes by itself
 * what is small. */
seer_phase seer_next_phase(seer_worker *worker, seer_world *world);
/* Whether the time that passes from now on is a window's: the tuner measures that alone. */
void seer_meter(seer_engine *engine, const seer_world *world, uint32_t on);
/* Whether a world's one shard should be several: handlers or sweeps take long. */
int seer_worth_refining(const seer_engine *engine);
int seer_worth_sharing(seer_engine *engine, const seer_world *world, const seer_phase *phase);
/* How long a sweep took. */
void seer_learn_sweep(seer_engine *engine, const seer_phase *phase, int shared, int64_t ns);

#endif
