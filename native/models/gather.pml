/* gather.pml - waiting for some of many results: look, announce how many are missing, sleep.
 *
 * A caller keeps WORKERS workers busy, each with one command at a time, and ROUNDS times waits until
 * COUNT of them have answered; it takes those answers and commands these workers anew. A worker
 * publishes its answer, adds 1 to the bell, and wakes the caller only if it sleeps and the bell has
 * reached the caller's target. That a worker learns of its command is sleep.pml's matter: here it
 * just waits for it.
 *
 * Checked in every interleaving: the caller never sleeps for ever (an invalid end state), and it
 * finds COUNT answers each time.
 *
 * Broken variants, which the checker must refute:
 *   BUG_ORDER    a worker adds to the bell before it publishes
 *   BUG_TARGET   the caller reads the bell after it has counted what is missing
 *   BUG_LOOK     no second look: asleep without comparing the bell again
 *   BUG_SLEEPERS a worker reads `sleepers` before it adds to the bell
 * (The model is sequentially consistent, as the labelled accesses in src/wire.c are.)
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef COUNT
#define COUNT 2
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif

byte command[WORKERS]; /* W: caller */
byte done[WORKERS];    /* W: its worker */
byte bell;             /* fetch_add by workers */
byte target;           /* W: caller */
bit sleepers;          /* W: caller */
bit asleep;            /* the kernel's queue */
bit stop;

proctype worker(byte me)
{
    byte mine, aim;
    bit any;

    do
    :: command[me] != done[me] ->
#ifdef BUG_SLEEPERS
        any = sleepers;
#endif
#ifdef BUG_ORDER
        atomic { bell++; mine = bell };
        done[me] = command[me];
#else
        done[me] = command[me];
        atomic { bell++; mine = bell };
#endif
#ifndef BUG_SLEEPERS
        any = sleepers;
#endif
        if
        :: any ->
            aim = target;
            if
            :: mine >= aim -> asleep = 0 /* futex_wake */
            :: mine < aim
            fi
        :: !any
        fi;
        any = 0; mine = 0; aim = 0
    :: stop && command[me] == done[me] -> break
    od
}

inline look()
{
    have = 0;
    k = 0;
    do
    :: k < WORKERS ->
        if
        :: done[k] == command[k] -> have++
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0
}

active proctype caller()
{
    byte round, have, k, value, latest;

    do
    :: k < WORKERS -> command[k] = 1; run worker(k); k++
    :: else -> break
    od;
    do
    :: round < ROUNDS ->
        do
        :: true ->
#ifdef BUG_TARGET
            look();
            value = bell;
#else
            value = bell;
            look();
#endif
            if
            :: have >= COUNT -> break
            :: else
            fi;
            target = value + (COUNT - have);
            sleepers = 1;
            do
            :: true ->
                latest = bell;
                if
                :: latest >= target -> break
                :: else
                fi;
#ifdef BUG_LOOK
                asleep = 1;
#else
                atomic { /* futex_wait: compares and sleeps in one step */
                    if
                    :: bell == latest -> asleep = 1
                    :: else
                    fi
                };
#endif
                !asleep
            od;
            sleepers = 0
        od;
        have = 0;
        do
        :: k < WORKERS ->
            if
            :: have < COUNT && done[k] == command[k] -> have++; command[k]++
            :: else
            fi;
            k++
        :: else -> break
        od;
        assert(have == COUNT);
        have = 0; k = 0; value = 0; latest = 0;
        round++
    :: else -> break
    od;
    stop = 1
}
