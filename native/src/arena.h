/* arena.h - memory for a shard's pending events: blocks of 2, 4, 8 … events and slots for wide
 * payloads. Touched only by the holder of the shard's claim; blocks never leave their shard and
 * stay where they are, so pointers into them hold until they are given back. */
#ifndef SEER_ARENA_H
#define SEER_ARENA_H

#include "event.h"

#define SEER_CLASSES 24 /* block class c holds 2 << c events */

typedef struct seer_chunk seer_chunk;

typedef struct seer_arena {
    void *free_block[SEER_CLASSES]; /* singly linked through the blocks */
    seer_event *bump, *end;         /* what is left of the newest chunk */
    seer_chunk *chunks;             /* all of them, newest first */
    char **wide;                    /* chunks of wide payload slots, by slot >> 6 */
    uint32_t wide_chunks, wide_free; /* head of the free slots, linked through them */
    uint64_t bytes;
} seer_arena;

/* NULL when memory is short. */
seer_event *seer_arena_block(seer_arena *arena, unsigned class_);
void seer_arena_give(seer_arena *arena, seer_event *block, unsigned class_);
/* A slot with a copy of a wide payload, or SEER_NONE when memory is short. */
uint32_t seer_arena_wide(seer_arena *arena, const void *payload);
void seer_arena_give_wide(seer_arena *arena, uint32_t slot);
void seer_arena_free(seer_arena *arena); /* everything; the arena can be used again */

static inline char *seer_arena_payload(const seer_arena *arena, uint32_t slot)
{
    return arena->wide[slot >> 6] + (slot & 63) * SEER_WIDE_BYTES;
}

#endif
