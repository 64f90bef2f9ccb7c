/* futex.h - a futex for the models: what waiter.h calls to sleep and to wake.
 *
 * It promises only what its lock gives: the comparison reads relaxed under a lock that the waker takes
 * too. So that no wake-up is lost rests on waiter.h alone; a lost one is a deadlock, which relacy
 * reports. */
#ifndef SEER_FUTEX_H
#define SEER_FUTEX_H

#include "waiter.h"

struct seer_futex {
    rl::mutex lock;
    rl::condition_variable queue;
};

static seer_futex *futex; /* of the running execution */

void seer_sleep(seer_word *word, uint32_t low)
{
    futex->lock.lock($);
    if ((uint32_t)seer_load(&word->value, relaxed) == low) futex->queue.wait(futex->lock, $);
    futex->lock.unlock($);
}

void seer_wake(seer_word *)
{
    futex->lock.lock($);
    futex->queue.notify_all($);
    futex->lock.unlock($);
}

#endif
