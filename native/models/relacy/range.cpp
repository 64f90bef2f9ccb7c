/* range.cpp - ranges of claim.h under relacy: two steps of blocks, an owner who takes from the low
 * end and a thief who takes from the high end, who may both be late.
 *
 * A step's blocks are described before its range is filled. The caller is the owner and starts the
 * next step when all of this one's blocks are counted as done. Each block runs exactly once a step. */
#include "model.h"

#include "claim.h"

namespace {

enum { BLOCKS = 3, STEPS = 2 };

struct range_test : rl::test_suite<range_test, 2> {
    seer_range range;
    SEER_ATOMIC(uint32_t) completed;
    SEER_ATOMIC(uint32_t) over;
    rl::var<int> step;          /* the description */
    rl::var<int> state[BLOCKS]; /* runs of the block so far */

    void before()
    {
        seer_store(&range.word, (uint64_t)0, relaxed);
        seer_store(&completed, 0u, relaxed);
        seer_store(&over, 0u, relaxed);
        for (int i = 0; i < BLOCKS; i++) state[i]($) = 0;
        step($) = 0;
    }

    bool run(int steal)
    {
        uint64_t retries = 0;
        int64_t block = seer_range_take(&range, steal, &retries);
        if (block < 0) return false;
        RL_ASSERT(block < BLOCKS);
        /* The claimer reads the description after the claim: it may be a newer step's. */
        int now = step($);
        RL_ASSERT(state[block]($) == now - 1);
        state[block]($) = now;
        seer_add(&completed, 1u, acq_rel);
        return true;
    }

    void thread(unsigned me)
    {
        if (me == 1) {
            while (!seer_load(&over, acquire))
                if (!run(1)) rl::yield(1, $);
            return;
        }
        for (int now = 1; now <= STEPS; now++) {
            seer_store(&completed, 0u, relaxed); /* all claims of the last step are counted */
            step($) = now;
            seer_range_fill(&range, 0, BLOCKS);
            while (run(0)) {}
            while (seer_load(&completed, acquire) < BLOCKS) rl::yield(1, $);
            for (int i = 0; i < BLOCKS; i++) RL_ASSERT(state[i]($) == now);
        }
        seer_store(&over, 1u, release);
    }
};

} // namespace

int main(int argc, char **argv)
{
    return seer_model_main<range_test>(argc, argv, 50000);
}
