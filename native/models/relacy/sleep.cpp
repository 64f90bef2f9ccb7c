/* sleep.cpp - waiter.h under relacy: waiters that sleep at once, an opener who never looks back.
 * A lost wake-up is a deadlock (futex.h). What the opener wrote must be visible after the wait. */
#include "model.h"

#include "futex.h"

namespace {

enum { WAITERS = 2, TURNS = 2 };

struct sleep_test : rl::test_suite<sleep_test, WAITERS + 1> {
    seer_word word;
    rl::var<int> written[TURNS + 1];
    seer_futex mine;

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

int main(int argc, char **argv)
{
    return seer_model_main<sleep_test>(argc, argv, 50000);
}
