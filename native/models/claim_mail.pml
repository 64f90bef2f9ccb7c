/* claim_mail.pml - claims, mail and the closing of phases.
 *
 * WORKERS workers run SHARDS shards through phases 1, 2, 3 ... The phase of number p has one
 * instant of simulated time, named by its descriptor; there are TIMES instants. Events move between
 * shards as counts per instant. Every event may send one more, to any shard, one or two
 * instants later, so that instants without work come up and bids decide what is next. Whoever
 * closes a phase opens the next one, or first runs some instants alone.
 *
 * Checked in every interleaving:
 *   - a shard has one holder at a time, and is run exactly once a phase;
 *   - when a shard runs an instant, all mail for it has been filed: what it finds is what was
 *     sent, no more and no less, and nothing of an earlier instant is left behind;
 *   - a batch is not written while somebody files it;
 *   - the end is reached (no deadlock), with mailboxes empty and all that was sent handled.
 *
 * Broken variants, which the checker must refute:
 *   BUG_CLAIM  a claim ignores which phase the word speaks of
 *   BUG_FLUSH  mail is pushed after the shards were reported as done
 *   BUG_BID    the bid is stored after the shards were reported as done
 *   BUG_PUSH   a batch is pushed by a load and a store instead of a CAS
 *   BUG_PARITY one set of batches instead of two in turn
 *   BUG_EARLY  one mailbox a shard instead of two in turn: mail may be taken in its own phase, while
 *              its sender, who has pushed it, still adds what a stolen shard sends
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef SHARDS
#define SHARDS 2
#endif
#ifndef TIMES
#define TIMES 3
#endif
#define NEVER TIMES
#define END 255
#define NODES (WORKERS * 2 * SHARDS)
#ifdef BUG_PARITY
#define MINE(s) (me * 2 * SHARDS + (s))
#else
#define MINE(s) ((me * 2 + (p & 1)) * SHARDS + (s)) /* this worker's batch for a shard */
#endif
#ifdef BUG_EARLY
#define FILLED(s) ((s) * 2)
#define EMPTIED(s) ((s) * 2)
#else
#define FILLED(s) ((s) * 2 + (p & 1))    /* the mailbox that is filled in this phase */
#define EMPTIED(s) ((s) * 2 + 1 - (p & 1)) /* the one that is emptied */
#endif

typedef instants { byte n[TIMES] };

byte phase = 1;                   /* the open phase; W: closer */
byte instant[2];                  /* its descriptor, by parity; W: closer */
byte claim[SHARDS];               /* last phase that claimed; CAS */
byte head[SHARDS * 2];           /* mailboxes: a node + 1, or 0; CAS, exchange */
byte link[NODES];                /* the node behind; W: its sender, until linked */
instants batch[NODES];           /* W: sender; in the next phase the taker */
byte bid[WORKERS];                /* W: its worker; the closer when nobody holds a claim */
byte done;                        /* fetch_add */
instants filed[SHARDS];           /* the calendar; W: holder of the claim */

/* For the checks alone. */
bit held[SHARDS];
bit linked[NODES];
bit taken[NODES];
byte ran[SHARDS];                 /* the last phase that ran it */
instants due[SHARDS];             /* what was sent */
byte shared;                      /* phases closed */

inline send(s, t)
{
    /* Called within d_step: only this worker's buffers and calendars it holds. */
    if
    :: t < TIMES ->
        due[s].n[t]++;
        if
        :: t < low -> low = t
        :: else
        fi;
        if
        :: s == k || alone -> filed[s].n[t]++
        :: else ->
            assert(!taken[MINE(s)]);
            batch[MINE(s)].n[t]++
        fi
    :: else
    fi
}

/* Takes a mailbox of shard k whole and files it, node by node; each is then free again. */
inline take(box)
{
    d_step { node = head[box]; head[box] = 0 }
    d_step {
        j = node;
        do
        :: j != 0 -> taken[j - 1] = 1; j = link[j - 1]
        :: else -> break
        od;
        j = 0
    }
    d_step {
        do
        :: node != 0 ->
            j = node - 1;
            assert(linked[j]);
            linked[j] = 0;
            taken[j] = 0;
            for (t : 0 .. TIMES - 1) {
                filed[k].n[t] = filed[k].n[t] + batch[j].n[t];
                batch[j].n[t] = 0
            }
            node = link[j];
            link[j] = 0
        :: else -> break
        od;
        t = 0; j = 0
    }
}

/* Runs shard k at instant now; one event after the other. */
inline advance()
{
    d_step {
        assert(alone || ran[k] < p);
        ran[k] = p;
        for (t : 0 .. now) {
            assert(t == now || filed[k].n[t] == 0);
            assert(filed[k].n[t] == due[k].n[t])
        }
        t = 0
    }
    do
    :: filed[k].n[now] > 0 ->
        atomic {
            filed[k].n[now]--;
            due[k].n[now]--;
            select(j : 0 .. SHARDS);
            if
            :: j < SHARDS ->
                if
                :: t = now + 1
                :: t = now + 2
                fi;
                send(j, t)
            :: else
            fi;
            j = 0; t = 0
        }
    :: else -> break
    od;
    skip; /* spin allows no jump from a loop into a d_step */
    /* What stays here bids for the next instant as well. */
    d_step {
        for (t : now + 1 .. TIMES - 1) {
            if
            :: filed[k].n[t] > 0 && t < low -> low = t
            :: else
            fi
        }
        t = 0
    }
}

inline flush()
{
    j = 0;
    do
    :: j < SHARDS ->
        some = 0;
        d_step {
            for (t : 0 .. TIMES - 1) { some = some || batch[MINE(j)].n[t] > 0 }
            some = some && !linked[MINE(j)];
            t = 0
        }
        if
        :: some ->
            do
            :: node = head[FILLED(j)];
                link[MINE(j)] = node;
                atomic {
                    if
#ifdef BUG_PUSH
                    :: true ->
#else
                    :: head[FILLED(j)] == node ->
#endif
                        head[FILLED(j)] = MINE(j) + 1;
                        linked[MINE(j)] = 1;
                        break
#ifndef BUG_PUSH
                    :: else
#endif
                    fi
                }
            od
        :: else
        fi;
        node = 0; some = 0;
        j++
    :: else -> j = 0; break
    od;
    skip
}

inline offer() { bid[me] = low }

inline decide()
{
    d_step {
        assert(done == SHARDS && p == shared + 1);
        for (j : 0 .. SHARDS - 1) { assert(ran[j] == p && claim[j] == p) }
        low = NEVER;
        for (j : 0 .. WORKERS - 1) {
            if
            :: bid[j] < low -> low = bid[j]
            :: else
            fi;
            bid[j] = NEVER
        }
        j = 0;
        done = 0;
        closed = 1;
        shared = p
    }
    /* Small ones it runs alone, in the phase that it has closed: nobody can claim in it. */
    do
    :: low != NEVER ->
        d_step { now = low; low = NEVER; alone = 1; k = 0 }
        do
        :: k < SHARDS -> take(k * 2); take(k * 2 + 1); advance(); k++
        :: else -> break
        od;
        skip;
        d_step { alone = 0; k = 0 }
    :: break
    od;
    if
    :: low == NEVER -> phase = END
    :: else ->
        instant[(p + 1) & 1] = low;
        phase = p + 1
    fi
}

inline claim_and_run(s)
{
    k = s;
    d_step {
#ifdef BUG_CLAIM
        mine = claim[k] != p;
#else
        mine = claim[k] == p - 1;
#endif
        if
        :: mine -> claim[k] = p
        :: else
        fi
    }
    if
    :: mine ->
        d_step { assert(!held[k]); held[k] = 1; got++ }
        take(EMPTIED(k));
        advance();
        held[k] = 0
    :: else
    fi
}

/* Mail, bid, count; and whoever completes the count closes. */
inline report()
{
#ifndef BUG_FLUSH
    flush();
#endif
#ifndef BUG_BID
    offer();
#endif
    d_step { before = done; done = done + got }
#ifdef BUG_FLUSH
    flush();
#endif
#ifdef BUG_BID
    offer();
#endif
    if
    :: before + got == SHARDS -> decide()
    :: else
    fi
}

proctype worker(byte me)
{
    byte p, now, k, i, j, t, node, low, got, before;
    bit mine, some, alone, stealing, closed;

    do
    :: phase == END -> break
    :: phase != END && phase != p ->
        atomic {
            p = phase;
            if
            :: p == END -> break
            :: else
            fi
        }
        now = instant[p & 1];
        low = NEVER; stealing = 0; closed = 0;
        do /* own shards, then those of others that nobody has claimed */
        :: got = 0; i = 0;
            do
            :: i < SHARDS ->
                if
                :: stealing || i % WORKERS == me -> claim_and_run(i)
                :: else
                fi;
                i++
            :: else -> break
            od;
            skip;
            d_step { mine = 0; k = 0; i = 0 }
            if
            :: got > 0 -> report()
            :: else
            fi;
            if
            :: stealing || closed -> break
            :: else -> stealing = 1
            fi
        od;
        low = 0; got = 0; before = 0; now = 0; stealing = 0; closed = 0
    od
}

init
{
    byte j, t;

    atomic {
        for (j : 0 .. SHARDS - 1) { filed[j].n[0] = 1; due[j].n[0] = 1 }
        for (j : 0 .. WORKERS - 1) { bid[j] = NEVER; run worker(j) }
        j = 0
    }
    _nr_pr == 1;
    d_step {
        assert(phase == END);
        for (j : 0 .. SHARDS - 1) {
            assert(head[j * 2] == 0 && head[j * 2 + 1] == 0 && !held[j]);
            for (t : 0 .. TIMES - 1) { assert(due[j].n[t] == 0 && filed[j].n[t] == 0) }
        }
    }
}
