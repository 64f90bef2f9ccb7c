/* build.h - the steps of making an engine, for build.c. They return 0 when memory is short. */
#ifndef SEER_BUILD_H
#define SEER_BUILD_H

#include "engine.h"

/* Zeroed memory, counted as the engine's; NULL when it can't be had. */
void *seer_get(seer_engine *engine, size_t count, size_t size);

/* describe.c */
int seer_model_valid(const seer_model *model); /* 1 if it is legal */
int seer_copy_model(seer_engine *engine); /* copies of all arrays, where the caller's were */
int seer_list_stops(seer_engine *engine);

/* parts.c: what depends on the pool: shards, workers, outboxes. */
int seer_make_parts(seer_engine *engine);
void seer_free_shards(seer_engine *engine);
void seer_free_workers(seer_engine *engine);

#endif
