/* wire.h - words in memory that processes share: a bell, and results that say when they are valid.
 *
 * The protocol of a caller and its workers. Commands go one way: the caller writes what is to be
 * done and rings the worker's bell. Results come back the other way: a worker writes a result,
 * sets the result's `done` to the number of the command, and adds 1 to the collector's bell. A
 * result is valid only while `done` has that number, so that a worker's death at any instruction
 * leaves everything else readable. Nothing here blocks a writer.
 *
 * Waiting is that of waiter.h with a limit: a bounded spin, then a futex that other processes can
 * wake (not a private one), and back to the caller at the latest after `timeout_ns`, or as soon as
 * a signal comes. */
#ifndef SEER_WIRE_H
#define SEER_WIRE_H

#include <stdint.h>

#include "atomics.h"
#include "seer.h"

typedef struct seer_bell {
    SEER_ATOMIC(uint64_t) value;    /* W: whoever rings */
    SEER_ATOMIC(uint64_t) target;   /* W: the waiter. Ringers that count wake it only from there on */
    SEER_ATOMIC(uint32_t) sleepers; /* W: waiters */
    SEER_ATOMIC(uint32_t) urgent;   /* W: ringers; grows when the waiter is to look at once */
} seer_bell;

typedef struct seer_result {
    SEER_ATOMIC(uint64_t) done; /* W: the worker */
    uint64_t ticket;            /* W: the worker. The order in which results came, over all workers */
} seer_result;

_Static_assert(sizeof(seer_bell) <= SEER_WIRE_APART, "a bell has a pair of lines of its own");
_Static_assert(SEER_WIRE_APART == SEER_APART, "one distance for threads and processes");

#endif
