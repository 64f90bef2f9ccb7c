/* pool.h - the process's threads: created lazily, kept, shared by all engines.
 *
 * One call at a time has the pool (taken by CAS, never waited for: whoever does not get it runs
 * alone). Its threads wait on the epoch, spinning first; each announces the engine that it looks
 * at, so that an engine is freed only when nobody looks at it any more. */
#ifndef SEER_POOL_H
#define SEER_POOL_H

#include "engine.h"

/* 1 if the caller now has the pool, with threads for workers 1 .. threads - 1. */
int seer_pool_take(seer_engine *engine);
/* Calls the pool's workers to seer_engine_help(engine). Only between take and give. */
uint32_t seer_pool_call(seer_engine *engine);
void seer_pool_give(void);
/* 1 if some of its threads sleep. */
int seer_pool_asleep(void);
/* 1 while the engine is the one that the pool works for. */
int seer_pool_wants(const seer_engine *engine);
/* Returns when no worker looks at the engine any more. */
void seer_pool_forget(seer_engine *engine);
/* How many forks lie between the first process and this one. */
uint32_t seer_pool_forks(void);

#endif
