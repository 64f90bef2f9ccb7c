#include "arena.h"

#include <stdlib.h>
#include <string.h>

struct seer_chunk {
    seer_chunk *next;
    uint64_t pad[3]; /* keeps events on 32-byte boundaries */
};

seer_event *seer_arena_block(seer_arena *arena, unsigned class_)
{
    void *block = arena->free_block[class_];
    if (seer_likely(block != NULL)) {
        memcpy(&arena->free_block[class_], block, sizeof block);
        return block;
    }
    size_t events = (size_t)2 << class_;
    if ((size_t)(arena->end - arena->bump) < events) {
        /* what is left of the old chunk is lost until the arena is freed: at most half of it */
        size_t bytes = arena->bytes < 1024 ? 1024 : arena->bytes > (1 << 19) ? 1 << 19 : arena->bytes;
        if (bytes < sizeof(seer_chunk) + events * sizeof(seer_event))
            bytes = sizeof(seer_chunk) + events * sizeof(seer_event);
        seer_chunk *chunk = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
        if (!chunk) return NULL;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->bytes += bytes;
        arena->bump = (seer_event *)(chunk + 1);
        arena->end = arena->bump + (bytes - sizeof(seer_chunk)) / sizeof(seer_event);
    }
    seer_event *fresh = arena->bump;
    arena->bump += events;
    return fresh;
}

void seer_arena_give(seer_arena *arena, seer_event *block, unsigned class_)
{
    memcpy(block, &arena->free_block[class_], sizeof(void *));
    arena->free_block[class_] = block;
}

uint32_t seer_arena_wide(seer_arena *arena, const void *payload)
{
    if (arena->wide_free == SEER_NONE || arena->wide_chunks == 0) {
        uint32_t n = arena->wide_chunks;
        char **chunks = realloc(arena->wide, (n + 1) * sizeof *chunks);
        if (!chunks) return SEER_NONE;
        arena->wide = chunks;
        if (!(chunks[n] = malloc(64 * SEER_WIDE_BYTES))) return SEER_NONE;
        arena->wide_chunks = n + 1;
        arena->bytes += 64 * SEER_WIDE_BYTES;
        arena->wide_free = SEER_NONE;
        for (uint32_t k = 64; k-- > 0;) seer_arena_give_wide(arena, n * 64 + k);
    }
    uint32_t slot = arena->wide_free;
    memcpy(&arena->wide_free, seer_arena_payload(arena, slot), sizeof slot);
    memcpy(seer_arena_payload(arena, slot), payload, SEER_WIDE_BYTES);
    return slot;
}

void seer_arena_give_wide(seer_arena *arena, uint32_t slot)
{
    memcpy(seer_arena_payload(arena, slot), &arena->wide_free, sizeof slot);
    arena->wide_free = slot;
}

void seer_arena_free(seer_arena *arena)
{
    for (seer_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    for (uint32_t k = 0; k < arena->wide_chunks; k++) free(arena->wide[k]);
    free(arena->wide);
    memset(arena, 0, sizeof *arena);
}
