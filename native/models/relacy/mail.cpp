/* mail.cpp - mailbox.h under relacy: two senders, one taker who empties the box again and again. */
#include "model.h"

struct seer_event {
    rl::var<int> value;
};

#include "mailbox.h"

namespace {

enum { SENDERS = 2, EACH = 2 };

struct mail : rl::test_suite<mail, SENDERS + 1> {
    seer_mailbox box;
    seer_batch batches[SENDERS * EACH];
    seer_event events[SENDERS * EACH];
    bool seen[SENDERS * EACH];

    void before()
    {
        seer_store(&box.top, (seer_batch *)0, relaxed);
        for (int i = 0; i < SENDERS * EACH; i++) seen[i] = false;
    }

    void thread(unsigned me)
    {
        if (me < SENDERS) {
            for (int i = 0; i < EACH; i++) {
                int id = (int)me * EACH + i;
                events[id].value($) = id;
                batches[id].events = &events[id];
                batches[id].count = 1;
                seer_mail_push(&box, &batches[id]);
            }
            return;
        }
        int got = 0;
        int last[SENDERS] = {EACH, EACH};
        while (got < SENDERS * EACH) {
            seer_batch *batch = seer_mail_take(&box);
            if (!batch) rl::yield(1, $);
            for (int i = 0; i < SENDERS; i++) last[i] = EACH;
            for (; batch; batch = batch->next, got++) {
                int id = batch->events->value($);
                RL_ASSERT(batch == &batches[id] && !seen[id]);
                /* Newest first within a take. */
                RL_ASSERT(id % EACH < last[id / EACH]);
                last[id / EACH] = id % EACH;
                seen[id] = true;
            }
        }
    }

    void after()
    {
        for (int i = 0; i < SENDERS * EACH; i++) RL_ASSERT(seen[i]);
        RL_ASSERT(seer_load(&box.top, relaxed) == 0);
    }
};

} // namespace

int main(int argc, char **argv)
{
    return seer_model_main<mail>(argc, argv, 20000);
}
