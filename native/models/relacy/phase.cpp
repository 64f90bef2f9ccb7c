/* phase.cpp - a chain of phases under relacy: claims, mail, the agreement at the end, the bulletin of
 * what is next, and sleeping until it comes, with claim.h, mailbox.h and waiter.h as they are. What
 * lanes.c does between them (open_phase, read_phase, count_done, gather) is repeated here line by
 * line, with the same orders.
 *
 * Three shards, two workers, a few phases. In each phase each shard sends one letter to every other; a
 * shard that runs in phase P must have all letters of phase P - 1, and may have some of P already.
 * All that a shard, a letter or a decision consists of is an rl::var, so that relacy finds any access
 * which does not happen after the last write.
 *
 * Broken variants (orders are weakened by changing the headers, see tests/test_protocol_models.py):
 *   BUG_DONE   counting shards as done publishes nothing
 *   BUG_FLUSH  mail is pushed after the shards were counted
 *   BUG_EARLY  one mailbox a shard instead of two in turn: a batch may be taken while its sender,
 *              who has pushed it, still adds what a stolen shard sends
 *   BUG_BULLETIN the fields of the bulletin are relaxed and not looked at twice */
#include "model.h"

struct seer_event {
    rl::var<int> phase;
    rl::var<int> source;
};

#include "claim.h"
#include "futex.h"
#include "mailbox.h"

#ifdef BUG_DONE
#define DONE relaxed
#else
#define DONE acq_rel
#endif
#ifdef BUG_BULLETIN
#define SAY relaxed
#define HEAR relaxed
#else
#define SAY release
#define HEAR acquire
#endif
#ifdef BUG_EARLY
#define FILLED 0
#define EMPTIED 0
#define EARLY number /* that alone is not what we want to hear about */
#else
#define FILLED w->parity
#define EMPTIED !w->parity
#define EARLY number - 1
#endif
#define LOAD_(p, order) seer_load(p, order)
#define STORE_(p, v, order) seer_store(p, v, order)
#define ADD_(p, v, order) seer_add(p, v, order)

namespace {

enum { WORKERS = 2, SHARDS = 3, PHASES = 3 };

struct phase_test : rl::test_suite<phase_test, WORKERS> {
    struct shard {
        seer_claim claim;
        seer_mailbox mailbox[2];
        rl::var<int> ran;         /* the last phase */
        rl::var<int> got[SHARDS]; /* letters of each other shard */
    } shards[SHARDS];
    struct worker {
        seer_batch batch[2][SHARDS];
        seer_event letter[2][SHARDS][SHARDS]; /* by parity, target, number */
        bool filled[SHARDS];
        unsigned parity;
        uint64_t bid;
        int sent;
    } workers[WORKERS];
    struct bulletin {
        SEER_ATOMIC(uint64_t) field[3]; /* instant, its square, number */
    } bulletins[2];
    struct slot {
        SEER_ATOMIC(uint64_t) bid;
        SEER_ATOMIC(uint32_t) sent;
    } slots[WORKERS];
    SEER_ATOMIC(uint64_t) done;
    seer_word phase;
    rl::var<int> world; /* the closer's */
    seer_futex mine;
    int closed;

    void before()
    {
        futex = &mine;
        closed = 0;
        world($) = 0;
        seer_store(&done, (uint64_t)0, relaxed);
        seer_store(&phase.value, (uint64_t)0, relaxed);
        seer_store(&phase.sleepers, 0u, relaxed);
        for (int i = 0; i < SHARDS; i++) {
            seer_store(&shards[i].claim.phase, (uint64_t)0, relaxed);
            for (int b = 0; b < 2; b++) seer_store(&shards[i].mailbox[b].top, (seer_batch *)0, relaxed);
            shards[i].ran($) = 0;
            for (int j = 0; j < SHARDS; j++) shards[i].got[j]($) = 0;
        }
        for (int i = 0; i < WORKERS; i++) {
            seer_store(&slots[i].bid, UINT64_MAX, relaxed);
            seer_store(&slots[i].sent, 0u, relaxed);
            for (int b = 0; b < 2; b++)
                for (int j = 0; j < SHARDS; j++) workers[i].batch[b][j].count = 0;
        }
        for (int b = 0; b < 2; b++)
            for (int k = 0; k < 3; k++) seer_store(&bulletins[b].field[k], (uint64_t)0, relaxed);
    }

    /* ---- as in lanes.c ----------------------------------------------------------- */

    void open_phase(uint64_t number, uint64_t instant)
    {
        bulletin *b = &bulletins[number & 1];
        const uint64_t field[3] = {instant, instant * instant, number};
        for (int k = 0; k < 3; k++) STORE_(&b->field[k], field[k], SAY);
        seer_word_advance(&phase, number);
    }

    uint64_t read_phase(uint64_t *instant)
    {
        for (;;) {
            uint64_t number = seer_word_look(&phase), field[3];
            bulletin *b = &bulletins[number & 1];
            for (int k = 0; k < 3; k++) field[k] = LOAD_(&b->field[k], HEAR);
#ifndef BUG_BULLETIN
            if (field[2] != number || seer_word_look(&phase) != number) {
                rl::yield(1, $);
                continue;
            }
#endif
            RL_ASSERT(field[1] == field[0] * field[0]);
            *instant = field[0];
            return number;
        }
    }

    void mail(worker *w, int from, int to, int number)
    {
        seer_batch *batch = &w->batch[w->parity][to];
        seer_event *letter = w->letter[w->parity][to];
        RL_ASSERT(batch->count < SHARDS);
        letter[batch->count].phase($) = number;
        letter[batch->count].source($) = from;
        batch->events = letter;
        if (batch->count++ == 0) w->filled[to] = true;
        if ((uint64_t)number + 1 < w->bid) w->bid = number + 1;
        w->sent++;
    }

    void run_shard(worker *w, int k, int number)
    {
        shard *s = &shards[k];
        for (seer_batch *b = seer_mail_take(&s->mailbox[EMPTIED]); b; b = b->next) {
            for (unsigned i = 0; i < b->count; i++) {
                int source = b->events[i].source($), sent = b->events[i].phase($);
                RL_ASSERT(sent == number - 1 || sent == EARLY);
                s->got[source]($) = (int)s->got[source]($) + 1;
            }
            b->count = 0;
        }
        RL_ASSERT((int)s->ran($) == number - 1);
        s->ran($) = number;
        for (int j = 0; j < SHARDS; j++) {
            if (j == k) continue;
            int got = s->got[j]($);
            RL_ASSERT(got == number - 1 || got == EARLY);
            mail(w, k, j, number);
        }
    }

    bool take_shard(worker *w, int k, uint64_t number)
    {
        if (!seer_claim_free(&shards[k].claim, number)) return false;
        if (!seer_claim_take(&shards[k].claim, number)) return false;
        w->parity = number & 1;
        run_shard(w, k, (int)number);
        return true;
    }

    void mail_out(worker *w)
    {
        for (int j = 0; j < SHARDS; j++)
            if (w->filled[j]) {
                seer_mail_push(&shards[j].mailbox[FILLED], &w->batch[w->parity][j]);
                w->filled[j] = false;
            }
    }

    bool count_done(worker *w, unsigned me, unsigned ran)
    {
        if (!ran) return false;
#ifndef BUG_FLUSH
        mail_out(w);
#endif
        seer_store(&slots[me].bid, w->bid, relaxed);
        seer_store(&slots[me].sent, (uint32_t)w->sent, relaxed);
        bool last = ADD_(&done, (uint64_t)ran, DONE) + ran == SHARDS;
#ifdef BUG_FLUSH
        mail_out(w);
#endif
        return last;
    }

    /* Decides and opens what is next. */
    void close(uint64_t number)
    {
        uint64_t bid = UINT64_MAX;
        unsigned sent = 0;
        for (int i = 0; i < WORKERS; i++) {
            uint64_t its = seer_load(&slots[i].bid, relaxed);
            if (its < bid) bid = its;
            sent += seer_load(&slots[i].sent, relaxed);
            seer_store(&slots[i].bid, UINT64_MAX, relaxed);
            seer_store(&slots[i].sent, 0u, relaxed);
        }
        seer_store(&done, (uint64_t)0, relaxed);
        RL_ASSERT(sent == SHARDS * (SHARDS - 1) && bid == number + 1);
        world($) = (int)world($) + 1;
        RL_ASSERT((int)world($) == (int)number);
        for (int i = 0; i < SHARDS; i++) RL_ASSERT((int)shards[i].ran($) == (int)number);
        closed++;
        open_phase(number + 1, bid);
    }

    void thread(unsigned me)
    {
        worker *w = &workers[me];
        if (me == 0) open_phase(1, 1);
        uint64_t seen = 0;
        for (;;) {
            uint64_t instant, number = read_phase(&instant);
            if (number > PHASES) return;
            if (number == seen || number == 0) {
                /* Spinning is the same as sleeping early, and waking early: sleep.cpp looks closer. */
                seer_word_sleep(&phase, number);
                continue;
            }
            seen = number;
            w->bid = UINT64_MAX;
            w->sent = 0;
            for (int j = 0; j < SHARDS; j++) w->filled[j] = false;
            unsigned ran = 0;
            for (int k = 0; k < SHARDS; k++)
                if (k % WORKERS == (int)me) ran += take_shard(w, k, number);
            bool closer = count_done(w, me, ran);
            if (!closer) {
                for (int k = SHARDS; k-- > 0 && !closer;)
                    closer = count_done(w, me, take_shard(w, k, number));
            }
            if (closer) {
                /* Only a claim shows that the phase was not over: then its instant is right. */
                RL_ASSERT(instant == number);
                close(number);
            }
        }
    }

    void after() { RL_ASSERT(closed == PHASES); }
};

} // namespace

int main(int argc, char **argv)
{
    return seer_model_main<phase_test>(argc, argv, 50000);
}
