/* phase.cpp - a chain of phases under relacy: claims, mail, the agreement at the end, the bulletin of
 * what is next, and sleeping until it comes, with claim.h, mailbox.h and waiter.h as they are. What
 * lanes.c does between them (open_phase, read_bulletin, read_phase, count_done, gather, linger,
 * seer_help_world, seer_share_world) is repeated here line by line, with the same orders.
 *
 * Three shards, two workers: a caller and a helper of the pool. The step takes two calls: two windows
 * and a pause, then one window and the end. In the first two windows each shard sends one letter to
 * every other; a shard that runs a window must have all letters of those before it, and may have some
 * of its own already. The helper comes late or not at all, lingers after a call or leaves, and may
 * open what is next slowly, while the caller has already returned and opens phases of the next call.
 *
 * All that a shard, a letter or a decision consists of is an rl::var, so that relacy finds any access
 * which does not happen after the last write. What a bulletin says follows from its number, so each
 * reading of one is compared with that.
 *
 * Broken variants (orders are weakened by changing the headers, see tests/test_protocol_models.py):
 *   BUG_DONE   counting shards as done publishes nothing
 *   BUG_FLUSH  mail is pushed after the shards were counted
 *   BUG_EARLY  one mailbox a shard instead of two in turn: a batch may be taken while its sender,
 *              who has pushed it, still adds what a stolen shard sends
 *   BUG_BULLETIN the fields of the bulletin are relaxed and not looked at twice
 *   BUG_WORD   the number of the bulletin is stored before the word: a slow opener sets it back, and
 *              the caller takes the pause for the end of its second call
 *   BUG_ZERO   the number stays while the bulletin is rewritten
 *   BUG_FILE   a call pauses although mail is left */
#include "model.h"

struct seer_event {
    rl::var<int> window;
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
#define EARLY 1 /* that alone is not what we want to hear about */
#else
#define FILLED w->parity
#define EMPTIED !w->parity
#define EARLY 0
#endif
#define LOAD_(p, order) seer_load(p, order)
#define STORE_(p, v, order) seer_store(p, v, order)
#define ADD_(p, v, order) seer_add(p, v, order)

namespace {

enum { WORKERS = 2, SHARDS = 3, WINDOWS = 3, SENDING = 2, LETTERS = SHARDS * (SHARDS - 1) };
enum kind { END, PAUSE, WINDOW };
const uint32_t LEFT = UINT32_C(1) << 31;

/* What the bulletin of a number says. */
struct content {
    enum kind kind;
    int window; /* the one that is open, or the last one */
};

content content_of(uint64_t number)
{
    static const content all[] = {{END, 0}, {WINDOW, 1}, {WINDOW, 2}, {PAUSE, 2}, {WINDOW, 3}, {END, 3}};
    RL_ASSERT(number >= 1 && number <= 6);
    return all[number - 1];
}

uint64_t what_of(content c) { return (uint64_t)c.kind << 60 | (uint64_t)c.window; }
uint64_t value_of(content c) { return (uint64_t)c.window * 1000 + c.kind; }

bool random_runs; /* else a full search, where each choice would multiply what there is to look at */

unsigned chance(unsigned n) { return random_runs ? rl::rand(n) : 0; }

/* Now and then a thread is held up for long, as by another that has its core. */
void dawdle()
{
    if (chance(8) == 1)
        for (int k = 0; k < 60; k++) rl::yield(1, $);
}

/* Letters that a shard has had from each other one before a window. */
int before_window(int window) { return window - 1 < SENDING ? window - 1 : SENDING; }

struct phase_test : rl::test_suite<phase_test, WORKERS> {
    struct shard {
        seer_claim claim;
        seer_mailbox mailbox[2];
        rl::var<int> ran;         /* the last window */
        rl::var<int> got[SHARDS]; /* letters of each other shard */
    } shards[SHARDS];
    struct worker {
        seer_batch batch[2][SHARDS];
        seer_event letter[2][SHARDS][SHARDS]; /* by parity, target, number */
        bool filled[SHARDS];
        unsigned parity;
        uint64_t bid;
        uint32_t handled, sent, left, letters;
    } workers[WORKERS];
    struct bulletin {
        SEER_ATOMIC(uint64_t) number, what, value;
    } bulletins[2];
    struct slot {
        SEER_ATOMIC(uint64_t) key;
        SEER_ATOMIC(uint32_t) handled, sent;
    } slots[WORKERS];
    SEER_ATOMIC(uint64_t) done;
    seer_word phase, epoch; /* of the engine; of the pool */
    SEER_ATOMIC(uint32_t) stop;
    rl::var<int> phase_number, windows, mailed, call; /* the closer's; the last one the caller's */
    seer_futex mine;

    void before()
    {
        futex = &mine;
        phase_number($) = 1;
        windows($) = mailed($) = call($) = 0;
        seer_store(&done, (uint64_t)0, relaxed);
        seer_store(&stop, 0u, relaxed);
        seer_store(&phase.value, (uint64_t)1, relaxed);
        seer_store(&phase.sleepers, 0u, relaxed);
        seer_store(&epoch.value, (uint64_t)0, relaxed);
        seer_store(&epoch.sleepers, 0u, relaxed);
        for (int i = 0; i < SHARDS; i++) {
            seer_store(&shards[i].claim.phase, (uint64_t)0, relaxed);
            for (int b = 0; b < 2; b++) seer_store(&shards[i].mailbox[b].top, (seer_batch *)0, relaxed);
            shards[i].ran($) = 0;
            for (int j = 0; j < SHARDS; j++) shards[i].got[j]($) = 0;
        }
        for (int i = 0; i < WORKERS; i++) {
            seer_store(&slots[i].key, UINT64_MAX, relaxed);
            seer_store(&slots[i].handled, 0u, relaxed);
            seer_store(&slots[i].sent, 0u, relaxed);
            for (int b = 0; b < 2; b++)
                for (int j = 0; j < SHARDS; j++) workers[i].batch[b][j].count = 0;
        }
        for (int b = 0; b < 2; b++) {
            seer_store(&bulletins[b].number, (uint64_t)b, relaxed);
            seer_store(&bulletins[b].what, b ? what_of(content_of(1)) : (uint64_t)0, relaxed);
            seer_store(&bulletins[b].value, b ? value_of(content_of(1)) : (uint64_t)0, relaxed);
        }
    }

    /* ---- as in lanes.c ----------------------------------------------------------- */

    void open_phase(content c)
    {
        uint64_t number = (int)phase_number($) + 1;
        phase_number($) = (int)number;
        bulletin *b = &bulletins[number & 1];
#ifndef BUG_ZERO
        seer_store(&b->number, (uint64_t)0, relaxed);
#endif
        dawdle();
        STORE_(&b->what, what_of(c), SAY);
        dawdle();
        STORE_(&b->value, value_of(c), SAY);
#ifdef BUG_WORD
        seer_store(&b->number, number, release);
        dawdle();
        seer_word_set(&phase, number);
#else
        seer_word_set(&phase, number);
        dawdle();
        seer_store(&b->number, number, release);
#endif
        dawdle();
        seer_word_wake(&phase);
    }

    bool next_is_open(uint64_t number)
    {
        return seer_load(&bulletins[(number + 1) & 1].number, relaxed) > number;
    }

    bool read_bulletin(uint64_t number, content *c)
    {
        bulletin *b = &bulletins[number & 1];
        if (seer_load(&b->number, acquire) != number) return false;
        uint64_t what = LOAD_(&b->what, HEAR);
        dawdle();
        uint64_t value = LOAD_(&b->value, HEAR);
#ifndef BUG_BULLETIN
        if (seer_load(&b->number, relaxed) != number) return false;
#endif
        *c = content_of(number);
        RL_ASSERT(what == what_of(*c) && value == value_of(*c));
        return true;
    }

    uint64_t read_phase(content *c)
    {
        for (;;) {
            uint64_t number = seer_word_look(&phase);
            if (read_bulletin(number, c)) return number;
            rl::yield(1, $);
        }
    }

    void mail(worker *w, int from, int to, int window)
    {
        seer_batch *batch = &w->batch[w->parity][to];
        seer_event *letter = w->letter[w->parity][to];
        RL_ASSERT(batch->count < SHARDS);
        letter[batch->count].window($) = window;
        letter[batch->count].source($) = from;
        batch->events = letter;
        if (batch->count++ == 0) {
            w->filled[to] = true;
            w->letters++;
        }
        if ((uint64_t)window + 1 < w->bid) w->bid = window + 1;
        w->sent++;
    }

    void take_mail(shard *s, unsigned box, int window, int early)
    {
        for (seer_batch *b = seer_mail_take(&s->mailbox[box]); b; b = b->next) {
            for (unsigned i = 0; i < b->count; i++) {
                int source = b->events[i].source($), sent = b->events[i].window($);
                RL_ASSERT(sent == window - 1 || sent == window - 1 + early);
                s->got[source]($) = (int)s->got[source]($) + 1;
            }
            b->count = 0;
        }
    }

    void run_shard(worker *w, int k, int window)
    {
        shard *s = &shards[k];
        take_mail(s, EMPTIED, window, EARLY);
        RL_ASSERT((int)s->ran($) == window - 1);
        s->ran($) = window;
        for (int j = 0; j < SHARDS; j++) {
            if (j == k) continue;
            int got = s->got[j]($), wanted = before_window(window);
            RL_ASSERT(got == wanted || got == wanted + EARLY);
            if (window <= SENDING) mail(w, k, j, window);
        }
        w->handled++;
        if (window < WINDOWS && (uint64_t)window + 1 < w->bid) w->bid = window + 1;
    }

    bool take_shard(worker *w, int k, content c, uint64_t number)
    {
        if (!seer_claim_free(&shards[k].claim, number)) return false;
        if (!seer_claim_take(&shards[k].claim, number)) return false;
        RL_ASSERT((int)call($) == (c.window > 2 ? 2 : 1));
        w->parity = number & 1;
        run_shard(w, k, c.window);
        return true;
    }

    void mail_out(worker *w)
    {
        for (int j = 0; j < SHARDS; j++)
            if (w->filled[j]) {
                seer_mail_push(&shards[j].mailbox[FILLED], &w->batch[w->parity][j]);
                w->filled[j] = false;
            }
        w->letters = 0;
    }

    bool count_done(worker *w, unsigned me, unsigned ran)
    {
        if (!ran) return false;
        if (w->letters) w->left = LEFT;
#ifndef BUG_FLUSH
        mail_out(w);
#endif
        seer_store(&slots[me].key, w->bid, relaxed);
        seer_store(&slots[me].handled, w->handled + 1, relaxed);
        seer_store(&slots[me].sent, w->sent | w->left, relaxed);
        bool last = ADD_(&done, (uint64_t)ran, DONE) + ran == SHARDS;
#ifdef BUG_FLUSH
        mail_out(w);
#endif
        return last;
    }

    /* What was bid, handled and sent. */
    void gather(content c)
    {
        uint64_t bid = UINT64_MAX;
        uint32_t sent = 0, left = 0, handled = 0;
        for (int i = 0; i < WORKERS; i++) {
            uint64_t key = seer_load(&slots[i].key, relaxed);
            if (key < bid) bid = key;
            uint32_t told = seer_load(&slots[i].handled, relaxed), its = seer_load(&slots[i].sent, relaxed);
            if (told) handled += told - 1;
            sent += its & ~LEFT;
            left |= its & LEFT;
            seer_store(&slots[i].key, UINT64_MAX, relaxed);
            seer_store(&slots[i].handled, 0u, relaxed);
            seer_store(&slots[i].sent, 0u, relaxed);
        }
        seer_store(&done, (uint64_t)0, relaxed);
        RL_ASSERT(handled == SHARDS && sent == (c.window <= SENDING ? LETTERS : 0) && !left == !sent);
        RL_ASSERT(bid == (c.window < WINDOWS ? (uint64_t)c.window + 1 : UINT64_MAX));
        mailed($) = left != 0;
        windows($) = (int)windows($) + 1;
        RL_ASSERT((int)windows($) == c.window);
        for (int i = 0; i < SHARDS; i++) RL_ASSERT((int)shards[i].ran($) == c.window);
    }

    /* Decides what is next; at rest, what is still in the mail is filed. */
    content proceed()
    {
        content c = content_of((uint64_t)(int)phase_number($) + 1);
        RL_ASSERT((int)windows($) == (c.kind == WINDOW ? c.window - 1 : c.window));
#ifndef BUG_FILE
        if (c.kind != WINDOW && (int)mailed($)) {
            for (int k = 0; k < SHARDS; k++)
                for (unsigned box = 0; box < 2; box++) take_mail(&shards[k], box, c.window + 1, 0);
            mailed($) = 0;
        }
#endif
        return c;
    }

    /* 1 if it became the closer. */
    bool wait_or_help(worker *w, unsigned me, content c, uint64_t number)
    {
        if (next_is_open(number)) return false;
        for (int k = SHARDS; k-- > 0;)
            if (count_done(w, me, take_shard(w, k, c, number))) return true;
        /* Spinning is the same as sleeping early, and waking early: sleep.cpp looks closer. */
        if (chance(2)) {
            for (int k = 0; k < 4; k++) {
                if (next_is_open(number)) return false;
                rl::yield(1, $);
            }
        }
        seer_word_sleep(&phase, number);
        return false;
    }

    bool linger(unsigned me, uint64_t number)
    {
        if (me == 0) return false;
        for (unsigned k = chance(3) * 3; k > 0; k--) {
            if (next_is_open(number)) return true;
            rl::yield(1, $);
        }
        return false;
    }

    content help_world(unsigned me)
    {
        worker *w = &workers[me];
        content c;
        for (uint64_t number = 0;; number++) {
            if (!number || !read_bulletin(number, &c)) number = read_phase(&c);
            if (c.kind != WINDOW) {
                if (linger(me, number)) continue;
                return c;
            }
            w->bid = UINT64_MAX;
            w->handled = w->sent = w->left = w->letters = 0;
            for (int j = 0; j < SHARDS; j++) w->filled[j] = false;
            unsigned ran = 0;
            for (int k = 0; k < SHARDS; k++)
                if (k % WORKERS == (int)me) ran += take_shard(w, k, c, number);
            bool closer = count_done(w, me, ran);
            if (!closer && !wait_or_help(w, me, c, number)) continue;
            gather(c);
            open_phase(proceed());
        }
    }

    content share_world()
    {
        call($) = (int)call($) + 1;
        content c = proceed();
        for (int k = 0; k < SHARDS; k++)
            seer_store(&shards[k].claim.phase, (uint64_t)(int)phase_number($), relaxed);
        open_phase(c);
        seer_word_advance(&epoch, seer_load(&epoch.value, relaxed) + 1);
        return help_world(0);
    }

    /* ---- the two threads ---------------------------------------------------------- */

    void thread(unsigned me)
    {
        if (me == 0) {
            content c = share_world();
            RL_ASSERT(c.kind == PAUSE && (int)windows($) == 2);
            c = share_world();
            RL_ASSERT(c.kind == END && (int)windows($) == WINDOWS);
            seer_store(&stop, 1u, release);
            seer_word_advance(&epoch, seer_load(&epoch.value, relaxed) + 1);
            return;
        }
        for (uint64_t seen = 0;;) {
            uint64_t value = seer_word_look(&epoch);
            seen = value != seen ? value : seer_word_sleep(&epoch, seen);
            if (seer_load(&stop, acquire)) return;
            help_world(me);
        }
    }

    void after()
    {
        for (int k = 0; k < SHARDS; k++)
            for (int j = 0; j < SHARDS; j++)
                if (j != k) RL_ASSERT((int)shards[k].got[j]($) == SENDING);
    }
};

} // namespace

int main(int argc, char **argv)
{
    random_runs = argc < 2 || strcmp(argv[1], "full");
    return seer_model_main<phase_test>(argc, argv, 50000);
}
