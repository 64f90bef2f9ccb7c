/* soak.c - very many events whose counts have to add up.
 *
 * usage: soak [EVENTS [SECONDS-BETWEEN-LINES]], 1e9 events unless told otherwise.
 *
 * Tokens wander among the entities for ever. Each event bears a stamp made of its source and sequence
 * number; the stamps of what was sent, less those of what was handled, have to be those of what is
 * pending, and there are always as many events pending as there are tokens. The pool changes every
 * few steps: 1 to 4 threads, both axes, all grains, asleep and spinning. */
#include <time.h>

#include "tiny.h"

enum { ENTITIES = 1500, WORLDS = 4, TOKENS = 3, LOOKAHEAD = 1000, STEP = 50000 };

static uint64_t stamp(uint32_t source, uint32_t sequence)
{
    return mixed((uint64_t)source << 32 | sequence);
}

/* The word of an entity: stamps sent less stamps handled. An event's payload is its sender's count of
 * what it has sent, which has to be the event's sequence number. */
static int send_one(seer_ctx *ctx)
{
    uint64_t r = seer_bits(ctx), *count = tiny_row(ctx, TINY_COUNT), *word = tiny_row(ctx, TINY_WORD);
    int64_t self = ctx->entity, to = r & 3 ? self : (int64_t)((r >> 8) % ENTITIES);
    int64_t ticks = (to == self ? 1 : LOOKAHEAD) + (int64_t)((r >> 40) % (4 * LOOKAHEAD));
    uint64_t sequence = *count >> 32; /* what it has sent; the low half is what it has handled */
    *count += UINT64_C(1) << 32;
    *word += stamp((uint32_t)self, (uint32_t)sequence);
    return seer_send(ctx, 0, to, ticks, sequence);
}

static int32_t wander(seer_ctx *ctx, int64_t entity, const seer_event *e, const void *payload)
{
    uint64_t sequence;
    memcpy(&sequence, payload, sizeof sequence);
    if (sequence != e->sequence || e->target != entity) return 0;
    ++*tiny_row(ctx, TINY_COUNT);
    *tiny_row(ctx, TINY_WORD) -= stamp(e->source, e->sequence);
    return send_one(ctx);
}

static int32_t scatter(seer_ctx *ctx, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++)
        for (int k = 0; k < TOKENS; k++) {
            ctx->entity = (uint32_t)i;
            if (!send_one(ctx)) return 0;
        }
    return 1;
}

/* Events handled so far, by the entities' own counts; checks them against what is pending. */
static uint64_t add_up(tiny *t)
{
    uint64_t handled = 0, most = 0;
    seer_event *events = zeros((size_t)ENTITIES * TOKENS * sizeof *events);
    char *wide = zeros((size_t)ENTITIES * TOKENS * SEER_WIDE_BYTES);
    uint32_t *lengths = zeros(4 * ENTITIES), *sequences = zeros(4 * ENTITIES);
    for (uint32_t w = 0; w < WORLDS; w++) {
        EQUAL(seer_engine_pending(t->engine, w), ENTITIES * TOKENS, "pending in world %u", w);
        if (failures) break;
        seer_engine_export(t->engine, w, events, wide, lengths, sequences);
        uint64_t sum = 0, here = 0, sent = 0, listed = 0;
        for (uint32_t i = 0; i < ENTITIES; i++) {
            uint64_t count = t->count[w * ENTITIES + i];
            sum += t->word[w * ENTITIES + i];
            here += (uint32_t)count;
            sent += count >> 32;
            listed += lengths[i];
            EQUAL(sequences[i], count >> 32, "what entity %u of world %u has sent", i, w);
            if (count >> 32 > most) most = count >> 32;
        }
        for (uint64_t k = 0; k < ENTITIES * TOKENS; k++) sum -= stamp(events[k].source, events[k].sequence);
        EQUAL(sum, 0, "stamps of world %u", w);
        EQUAL(listed, ENTITIES * TOKENS, "events listed of world %u", w);
        EQUAL(sent, here + ENTITIES * TOKENS, "sent in world %u", w);
        handled += here;
    }
    CHECK(most < UINT32_MAX, "the halves of the counts overflow: fewer events, please");
    free(events), free(wide), free(lengths), free(sequences);
    return handled;
}

int main(int argc, char **argv)
{
    double wanted = argc > 1 ? atof(argv[1]) : 1e9, every = argc > 2 ? atof(argv[2]) : 10;
    seer_pool_config pools[64];
    uint32_t n = tiny_pools(pools);
    tiny t = {.worlds = WORLDS, .entities = ENTITIES, .kinds = 1, .sweeps = 1, .lookahead = LOOKAHEAD,
              .step = STEP};
    t.kind[0].handler = wander;
    t.sweep[0] = (seer_sweep){scatter, 0, 1 << TINY_COUNT | 1 << TINY_WORD, 0, SEER_SWEEP_ON_RESET};
    tiny_make(&t, &pools[0]);
    EQUAL(tiny_reset(&t, 1), 0, "reset");
    time_t start = time(NULL), told = start;
    uint64_t handled = 0;
    for (uint64_t turn = 0; (double)handled < wanted && !failures; turn++) {
        seer_pool_config pool = pools[turn % n];
        /* a few lanes a shard make much mail; many are faster */
        pool.grain = pool.axis == SEER_AXIS_LANES ? 16u << (turn / n) % 6 : pool.grain;
        EQUAL(seer_engine_set_pool(t.engine, &pool), 0, "set_pool");
        for (int s = 0; s < 5 && !failures; s++)
            EQUAL(stepped(t.engine), 0, "%u threads, axis %u, grain %u, share %u", pool.threads,
                  pool.axis, pool.grain, pool.share);
        handled = add_up(&t);
        time_t now = time(NULL);
        if (difftime(now, told) >= every) {
            printf("%.3e events, %.0f s\n", (double)handled, difftime(now, start));
            fflush(stdout);
            told = now;
        }
    }
    printf("soak: %" PRIu64 " events add up%s, %.0f s\n", handled, failures ? " NOT" : "",
           difftime(time(NULL), start));
    tiny_free(&t);
    return failures != 0;
}
