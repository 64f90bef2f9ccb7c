/* history.c - recorded histories of a mailbox are linearizable.
 *
 * usage: history [HISTORIES [broken]]
 *
 * Two senders push and the main thread takes, all at once; each notes when its operation began and
 * ended, by a shared counter. A history is linearizable when some order of its operations agrees
 * both with those times and with a list to which push adds in front and which take empties.
 * The search is that of Wing and Gong (JPDC 17, 1993) with the memory of Lowe (CCPE 29, 2017):
 * a set of finished operations is not entered twice with the same list.
 *
 * "broken" takes by a load and a store instead of an exchange; the search has to refute that.
 * Exit status: 0 if all histories were linearizable, 1 if not. */
#include <pthread.h>
#include <sched.h>

#include "../src/mailbox.h"
#include "check.h"

enum { SENDERS = 2, EACH = 4, TAKES = 5, OPS = SENDERS * EACH + TAKES + 1, IDS = SENDERS * EACH };

typedef struct op {
    uint32_t began, ended;
    int id;              /* pushed; -1: a take */
    int got[IDS], count; /* taken, newest first */
} op;

static seer_mailbox box;
static seer_batch batches[IDS];
static SEER_ATOMIC(uint32_t) clock_;
static SEER_ATOMIC(uint32_t) gate; /* threads that have come to a meeting, all in all */
static op history[OPS];
static int broken, histories;

static uint32_t tick(void) { return seer_add(&clock_, 1u, seq_cst); }

static seer_batch *take(uint64_t *state)
{
    if (!broken) return seer_mail_take(&box);
    seer_batch *all = seer_load(&box.top, acquire);
    if (dice(state) & 1) sched_yield();
    seer_store(&box.top, (seer_batch *)NULL, relaxed);
    return all;
}

/* All threads meet; spinning, so that they leave together. */
static void meet(void)
{
    uint32_t all = SENDERS + 1, mine = seer_add(&gate, 1u, acq_rel) / all + 1;
    for (int k = 0; seer_load(&gate, acquire) < mine * all; k++)
        if (k % 64 == 63) sched_yield();
        else seer_pause();
}

/* Lets others in between the operation and its beginning or end, even on one core. */
static void linger(uint64_t *state)
{
    if (dice(state) % 8 == 0) sched_yield();
}

static void push_one(op *o, int id, uint64_t *state)
{
    *o = (op){.id = id};
    o->began = tick();
    linger(state);
    seer_mail_push(&box, &batches[id]);
    linger(state);
    o->ended = tick();
}

static void take_all(op *o, uint64_t *state)
{
    *o = (op){.id = -1};
    o->began = tick();
    linger(state);
    seer_batch *b = take(state);
    linger(state);
    o->ended = tick();
    for (; b && o->count < IDS; b = b->next) o->got[o->count++] = (int)(b - batches);
}

static void play(int me, uint64_t *state)
{
    meet();
    for (int k = 0; k < (me < SENDERS ? EACH : TAKES); k++) {
        for (uint64_t wait = dice(state) % 4; wait > 0; wait--) seer_pause();
        if (me < SENDERS) push_one(&history[me * EACH + k], me * EACH + k, state);
        else take_all(&history[SENDERS * EACH + k], state);
    }
    meet();
}

static void *sender(void *argument)
{
    uint64_t state = 77 + (uint64_t)(uintptr_t)argument;
    for (int h = 0; h < histories; h++) play((int)(intptr_t)argument, &state);
    return NULL;
}

/* ---- the search ------------------------------------------------------------------ */

enum { SLOTS = 1 << 16 };
static struct {
    uint64_t list;
    uint32_t done, stamp;
} memory[SLOTS];
static uint32_t stamp;
static uint64_t visited;

/* Notes a configuration; 1 if it was there before. */
static int known(uint32_t done, uint64_t list)
{
    for (uint32_t k = (uint32_t)fold(list, done) % SLOTS;; k = (k + 1) % SLOTS) {
        if (memory[k].stamp != stamp) {
            memory[k].list = list, memory[k].done = done, memory[k].stamp = stamp;
            return 0;
        }
        if (memory[k].done == done && memory[k].list == list) return 1;
    }
}

/* The list as digits of id + 1, the newest last. */
static int search(uint32_t done, uint64_t list)
{
    if (done == (UINT32_C(1) << OPS) - 1) return 1;
    if (known(done, list)) return 0;
    visited++;
    uint32_t first_end = UINT32_MAX;
    for (int k = 0; k < OPS; k++)
        if (!(done >> k & 1) && history[k].ended < first_end) first_end = history[k].ended;
    for (int k = 0; k < OPS; k++) {
        const op *o = &history[k];
        if (done >> k & 1 || o->began > first_end) continue;
        uint64_t next = list;
        if (o->id >= 0) {
            next = list << 4 | (uint64_t)(o->id + 1);
        } else {
            uint64_t got = 0;
            for (int i = o->count; i-- > 0;) got = got << 4 | (uint64_t)(o->got[i] + 1);
            if (got != list) continue;
            next = 0;
        }
        if (search(done | UINT32_C(1) << k, next)) return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    histories = argc > 1 ? atoi(argv[1]) : 20000;
    broken = argc > 2 && !strcmp(argv[2], "broken");
    pthread_t thread[SENDERS];
    for (intptr_t k = 0; k < SENDERS; k++) pthread_create(&thread[k], NULL, sender, (void *)k);
    int wrong = 0, overlapping = 0;
    uint64_t state = 1;
    for (int h = 0; h < histories; h++) {
        seer_store(&box.top, (seer_batch *)NULL, relaxed);
        seer_store(&clock_, 0u, relaxed);
        play(SENDERS, &state);
        take_all(&history[OPS - 1], &state);
        for (int k = 0; k + 1 < OPS; k++) overlapping += history[k].ended > history[k].began + 1;
        stamp++;
        wrong += !search(0, 0);
    }
    for (int k = 0; k < SENDERS; k++) pthread_join(thread[k], NULL);
    printf("history: %d histories of %d operations, %d operations overlapped, %" PRIu64
           " configurations, %d not linearizable\n",
           histories, OPS, overlapping, visited, wrong);
    if (!overlapping) {
        printf("history: nothing overlapped, so nothing was tested\n");
        return 2;
    }
    return wrong != 0;
}
