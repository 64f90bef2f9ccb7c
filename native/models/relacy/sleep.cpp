/* sleep.cpp - waiter.h under relacy: waiters that sleep at once, an opener who never looks back.
 *
 * The futex here promises only what its lock gives: the comparison reads relaxed under a lock
 * that the waker takes too. So that no wake-up is lost rests on waiter.h alone; a lost one is a
 * deadlock, which relacy reports. What the opener wrote must be visible after the wait. */
#include "model.h"

#include "waiter.h"

namespace {

enum { WAITERS = 2, TURNS = 2 };

struct kernel {
    rl::mutex lock;
    rl::condition_variable queue;
} *futex;

struct sleep_test : rl::test_suite<sleep_test, WAITERS + 1> {
    seer_word word;
    rl::var<int> written[TURNS + 1];
    kernel mine;

    void before()
    {
        futex = &mine;
        seer_store(&word.value, (uint64_t)0, relaxed);
        seer_store(&word.sleepers, 0u, relaxed);
    }

    void thread(unsigned me)
    {
        if (me == WAITERS) {
            for (int turn = 1; turn <= TURNS; turn++) {
                written[turn]($) = turn;
                seer_word_advance(&word, (uint64_t)turn);
            }
            return;
        }
        uint64_t seen = 0;
        while (seen < TURNS) {
            uint64_t now = seer_word_look(&word);
            if (now == seen) now = seer_word_sleep(&word, seen);
            RL_ASSERT(now > seen);
            seen = now;
            RL_ASSERT(written[seen]($) == (int)seen);
        }
    }

    void after() { RL_ASSERT(seer_load(&word.sleepers, relaxed) == 0); }
};

} // namespace

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

int main(int argc, char **argv)
{
    return seer_model_main<sleep_test>(argc, argv, 50000);
}
