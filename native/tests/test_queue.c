/* test_queue.c - lanes and calendars against a sorted list, mailboxes against counts: the parts of
 * the core by themselves, through its inner headers. */
#include <pthread.h>

#include "../src/shard.h"
#include "check.h"

/* ---- one lane ---------------------------------------------------------------- */

typedef struct list { /* sorted, earliest first */
    seer_event *item;
    size_t count, room;
} list;

static void list_insert(list *l, seer_event e)
{
    if (l->count == l->room) {
        l->room = l->room * 2 + 64;
        l->item = realloc(l->item, l->room * sizeof e);
        if (!l->item) exit(2);
    }
    size_t i = l->count++;
    for (; i > 0 && seer_before(&e, &l->item[i - 1]); i--) l->item[i] = l->item[i - 1];
    l->item[i] = e;
}

static seer_event list_pop(list *l)
{
    seer_event e = l->item[0];
    memmove(l->item, l->item + 1, --l->count * sizeof e);
    return e;
}

static seer_event some_event(uint64_t *state, int64_t from, int64_t span, uint32_t sequence)
{
    uint64_t r = dice(state);
    /* Few sources and rounds, so that every part of the order decides now and then. */
    return (seer_event){.time = from + (int64_t)(r % (uint64_t)span), .source = r >> 32 & 3,
                        .round = r >> 40 & 1, .sequence = sequence, .payload = dice(state)};
}

static void lane_against_a_sorted_list_pops_in_the_same_order(void)
{
    uint64_t state = 1;
    for (int game = 0; game < 40; game++) {
        seer_arena arena = {0};
        arena.wide_free = SEER_NONE;
        seer_lane lane;
        seer_lane_clear(&lane);
        list l = {0};
        int64_t now = 0;
        size_t most = (size_t[]){1, 3, 20, 60, 400}[game % 5];
        int64_t span = (int64_t[]){1, 5, 1000}[game % 3];
        for (uint32_t k = 0; k < 4000; k++) {
            if (l.count < most && dice(&state) % 100 < 60) {
                seer_event e = some_event(&state, now, span, k);
                CHECK(seer_lane_insert(&lane, &arena, seer_record_of(&e)), "memory");
                list_insert(&l, e);
            } else if (l.count) {
                seer_event e = list_pop(&l);
                CHECK(!memcmp(&lane.head, &e, sizeof e), "game %d, turn %u: wrong head", game, k);
                seer_lane_pop(&lane);
                now = e.time;
            }
            EQUAL(seer_lane_length(&lane), l.count, "game %d, turn %u", game, k);
            if (k % 500 == 0) {
                seer_event *all = zeros((l.count + 1) * sizeof *all);
                EQUAL(seer_lane_list(&lane, all), l.count, "listing");
                CHECK(!l.count || !memcmp(all, l.item, l.count * sizeof *all),
                      "game %d: listing differs", game);
                free(all);
            }
            if (failures > 5) return;
        }
        seer_arena_free(&arena);
        free(l.item);
    }
}

/* ---- one shard: file, next, advance, gather, as windows do ------------------------ */

enum { LANES = 24 };

typedef struct toy {
    seer_shard *shard;
    seer_lane *lanes;
    list want[LANES];
    uint64_t state;
    uint32_t sequence;
    size_t pending;
} toy;

static toy toy_make(int64_t width, uint64_t seed)
{
    toy t = {.shard = zeros(sizeof(seer_shard)), .lanes = zeros(LANES * sizeof(seer_lane)),
             .state = seed};
    t.shard->lanes = t.lanes;
    t.shard->count = LANES;
    t.shard->map = zeros(seer_shard_map_bytes(LANES));
    t.shard->map_stride = (uint32_t)(seer_shard_map_bytes(LANES) / (SEER_RING + 1) / sizeof(uint64_t));
    t.shard->map_summary = t.shard->map_stride - (LANES + 63) / 64;
    t.shard->lane_capacity = 1 << 20;
    t.shard->buckets = seer_buckets_of(width);
    seer_shard_clear(t.shard, 0);
    return t;
}

static void toy_free(toy *t)
{
    seer_arena_free(&t->shard->arena);
    for (int i = 0; i < LANES; i++) free(t->want[i].item);
    free(t->shard->map), free(t->shard), free(t->lanes);
}

static void toy_file(toy *t, int64_t from, int64_t span)
{
    uint32_t i = (uint32_t)(dice(&t->state) % LANES);
    seer_event e = some_event(&t->state, from, span, t->sequence++);
    e.target = i;
    CHECK(seer_shard_file(t->shard, i, seer_record_of(&e)), "memory");
    list_insert(&t->want[i], e);
    t->pending++;
}

static uint64_t toy_next(const toy *t)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < LANES; i++)
        if (t->want[i].count) {
            uint64_t b = seer_bucket(t->shard->buckets, t->want[i].item[0].time);
            if (b < least) least = b;
        }
    return least;
}

/* One window: all lanes of the next bucket, which then have later heads or none. */
static void toy_window(toy *t)
{
    uint64_t near = seer_shard_near(t->shard), truth = toy_next(t);
    uint64_t next = near < t->shard->far_min ? near : t->shard->far_min;
    /* It may name a bucket whose lanes have gone elsewhere, never a later one. */
    CHECK(next <= truth, "next bucket %" PRIu64 " lies after the truth %" PRIu64, next, truth);
    uint32_t ids[LANES];
    seer_shard_advance(t->shard, next, ids);
    if (!(t->shard->occupied >> (next & (SEER_RING - 1)) & 1)) {
        CHECK(next < truth, "bucket %" PRIu64 " should list a lane", next);
        return;
    }
    uint32_t n = seer_shard_gather(t->shard, next & (SEER_RING - 1), ids);
    int64_t limit = seer_bucket_end(t->shard->buckets, next);
    for (uint32_t k = 0; k < n; k++) {
        seer_lane *lane = &t->lanes[ids[k]];
        list *want = &t->want[ids[k]];
        lane->slot = SEER_SLOT_NONE;
        while (lane->head.time < limit) {
            CHECK(want->count, "lane %u has an event too many", ids[k]);
            if (!want->count) return;
            seer_event e = list_pop(want);
            CHECK(!memcmp(&lane->head, &e, sizeof e), "lane %u: wrong head", ids[k]);
            seer_lane_pop(lane);
            t->pending--;
        }
        if (lane->head.time != SEER_NEVER)
            seer_shard_list(t->shard, ids[k], lane,
                            seer_bucket(t->shard->buckets, lane->head.time));
    }
    for (int i = 0; i < LANES; i++)
        CHECK(!t->want[i].count || t->want[i].item[0].time >= limit, "lane %d was left behind", i);
}

static void shard_against_sorted_lists_finds_every_window(void)
{
    const int64_t widths[] = {1, 2, 3, 7, 64, 1000, 999983, INT64_C(1) << 40};
    for (int game = 0; game < 48 && failures < 5; game++) {
        int64_t width = widths[game % 8];
        int64_t reach = width * (int64_t[]){2, 40, 90, 3000, 20, 64}[game % 6];
        toy t = toy_make(width, 77 + game);
        int64_t start = game % 5 ? 0 : (SEER_TIME_MAX >> 1) - 12345;
        seer_shard_clear(t.shard, seer_bucket(t.shard->buckets, start));
        for (int k = 0; k < 40; k++) toy_file(&t, start, reach);
        for (int w = 0; w < 1500 && t.pending && failures < 5; w++) {
            toy_window(&t);
            /* What is sent from a window lies behind its bucket. */
            int64_t now = seer_bucket_end(t.shard->buckets, t.shard->base);
            while (w < 1400 && t.pending < 40) toy_file(&t, now, reach);
            if (w < 1400 && dice(&t.state) % 4 == 0) toy_file(&t, now, width);
        }
        toy_free(&t);
    }
}

static void buckets_of_any_width_are_monotonic_and_never_wider(void)
{
    uint64_t state = 3;
    for (int k = 0; k < 200000 && failures < 5; k++) {
        int64_t width = (int64_t)(dice(&state) >> (2 + dice(&state) % 61)) + 1;
        int64_t tick = (int64_t)(dice(&state) >> (3 + dice(&state) % 60));
        if (width > SEER_TIME_MAX) width = SEER_TIME_MAX;
        if (tick > SEER_TIME_MAX - 2) tick = SEER_TIME_MAX - 2;
        seer_buckets b = seer_buckets_of(width);
        uint64_t bucket = seer_bucket(b, tick);
        int64_t end = seer_bucket_end(b, bucket);
        CHECK(end > tick, "width %" PRId64 ", tick %" PRId64 ": ends at %" PRId64, width, tick, end);
        CHECK(seer_bucket(b, end - 1) == bucket && seer_bucket(b, end) == bucket + 1,
              "width %" PRId64 ", tick %" PRId64 ": the end is not the first of the next", width, tick);
        int64_t first = bucket ? seer_bucket_end(b, bucket - 1) : 0;
        CHECK(first <= tick && end - first <= width, "width %" PRId64 ", tick %" PRId64
              ": %" PRId64 " wide", width, tick, end - first);
    }
}

/* ---- mail between threads ------------------------------------------------------ */

enum { SENDERS = 3, ROUNDS = 3000 };

static seer_mailbox box;
static seer_batch letters[SENDERS][ROUNDS];
static seer_event bodies[SENDERS][ROUNDS];

static void *sender(void *argument)
{
    uint32_t me = (uint32_t)(uintptr_t)argument;
    for (uint32_t k = 0; k < ROUNDS; k++) {
        bodies[me][k] = (seer_event){.source = me, .sequence = k, .payload = fold(me, k)};
        letters[me][k] = (seer_batch){.events = &bodies[me][k], .count = 1};
        seer_mail_push(&box, &letters[me][k]);
    }
    return NULL;
}

static void mailbox_with_three_senders_loses_and_doubles_nothing(void)
{
    pthread_t thread[SENDERS];
    static uint8_t seen[SENDERS][ROUNDS];
    for (uintptr_t i = 0; i < SENDERS; i++) pthread_create(&thread[i], NULL, sender, (void *)i);
    for (uint32_t got = 0; got < SENDERS * ROUNDS && failures < 5;)
        for (seer_batch *b = seer_mail_take(&box); b; b = b->next, got++) {
            seer_event *e = b->events;
            CHECK(e->payload == fold(e->source, e->sequence), "a torn letter");
            CHECK(!seen[e->source][e->sequence]++, "letter %u of %u came twice", e->sequence,
                  e->source);
        }
    for (int i = 0; i < SENDERS; i++) pthread_join(thread[i], NULL);
    CHECK(!seer_mail_take(&box), "a letter too many");
}

/* ---- ranges of worlds ----------------------------------------------------------- */

enum { BLOCKS = 100000 };

static seer_range range;
static SEER_ATOMIC(uint32_t) taken[BLOCKS];

static void *thief(void *argument)
{
    uint64_t retries = 0;
    int64_t block;
    while ((block = seer_range_take(&range, argument != NULL, &retries)) >= 0)
        seer_add(&taken[block], 1u, relaxed); /* relaxed: counted after the joins */
    return NULL;
}

static void range_taken_from_both_ends_gives_each_block_once(void)
{
    pthread_t thread[3];
    seer_range_fill(&range, 0, BLOCKS);
    for (uintptr_t i = 0; i < 3; i++) pthread_create(&thread[i], NULL, thief, (void *)i);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < BLOCKS; i++) EQUAL(seer_load(&taken[i], relaxed), 1, "block %d", i);
}

int main(void)
{
    TEST(lane_against_a_sorted_list_pops_in_the_same_order);
    TEST(shard_against_sorted_lists_finds_every_window);
    TEST(buckets_of_any_width_are_monotonic_and_never_wider);
    TEST(mailbox_with_three_senders_loses_and_doubles_nothing);
    TEST(range_taken_from_both_ends_gives_each_block_once);
    return failures != 0;
}
