/* together.h - several workers in one step: on one world's shards, or each on worlds of its own. */
#ifndef SEER_TOGETHER_H
#define SEER_TOGETHER_H

#include "engine.h"

/* A worker's longest wait for the owner of what it could take itself, ns. */
#define SEER_STEAL_NS 2500

/* engine.c: what a worker has done since the last agreement, and telling a world of it. */
void seer_clear_tally(seer_worker *worker);
void seer_tally(seer_worker *worker, seer_world *world, uint64_t bid, uint32_t round,
                uint64_t handled, uint64_t sent);
/* Goes on with a world until a phase is worth sharing, or the world is through or has to pause. */
seer_phase seer_proceed(seer_worker *worker, seer_world *world);
/* Goes on with one world of the worlds axis, by itself. */
void seer_run_world(seer_worker *worker, seer_world *world);

/* lanes.c: shares phases of a world, from the one given, until it is through or has to pause. */
seer_phase seer_share_world(seer_worker *worker, seer_world *world, seer_phase phase);
seer_phase seer_help_world(seer_worker *worker); /* END or PAUSE: how it ended */

/* worlds.c: shares the worlds among the workers. */
void seer_share_worlds(seer_worker *worker);
void seer_help_worlds(seer_worker *worker);

#endif
