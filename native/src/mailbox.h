/* mailbox.h - mail for a shard: pushed batch by batch, taken whole.
 *
 * Any worker pushes, at most one takes at a time (the holder of the shard's claim). Push and
 * take are lock-free: a push that fails its CAS was overtaken by one that did not. No ABA and
 * nothing to reclaim: a batch is taken with all others by one exchange, and its sender fills it
 * again two phases later, after the phase in which every shard has emptied its mailbox. */
#ifndef SEER_MAILBOX_H
#define SEER_MAILBOX_H

#include "atomics.h"

/* Owned by the sending worker; from push to the end of the next phase read by the taker. */
typedef struct seer_batch {
    struct seer_batch *next; /* W: sender, before the push   R: taker */
    struct seer_event *events;
    unsigned count, capacity;
} seer_batch;

typedef struct seer_mailbox {
    SEER_ATOMIC(seer_batch *) top; /* W: senders (CAS), holder (exchange) */
} seer_mailbox;

/* Returns how often the CAS had to be tried again. */
static inline unsigned seer_mail_push(seer_mailbox *box, seer_batch *batch)
{
    unsigned retries = 0;
    /* relaxed: only the expected value of the CAS */
    seer_batch *top = seer_load(&box->top, relaxed);
    for (;; retries++) {
        batch->next = top;
        /* [M1] release: publishes the batch and its events; pairs with [M2]. */
        if (seer_cas(&box->top, &top, batch, release, relaxed)) return retries;
    }
}

static inline seer_batch *seer_mail_take(seer_mailbox *box)
{
    /* relaxed: what was pushed before this phase is visible through [G1] and [B3] of lanes.c,
     * or because one worker runs all; an empty mailbox is spared the exchange. */
    if (!seer_load(&box->top, relaxed)) return 0;
    /* [M2] acquire: pairs with [M1]; the batches below are whole. */
    return seer_exchange(&box->top, (seer_batch *)0, acquire);
}

#endif
