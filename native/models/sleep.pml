/* sleep.pml - waiting for a word to change: spin, announce, look again, sleep.
 *
 * An opener raises the word TURNS times and waits for nobody in between, so that waiters may miss
 * values; WAITERS wait until they have seen the last one. The futex is modelled as the kernel has
 * it: the comparison and the falling asleep are one step, and a wake reaches those asleep.
 *
 * Checked in every interleaving: nobody sleeps for ever (an invalid end state), `sleepers` returns to
 * 0, and whoever returns from a wait has seen a new value.
 *
 * Broken variants, which the checker must refute:
 *   BUG_LOOK     no second look: asleep without comparing the word again
 *   BUG_ANNOUNCE the second look comes before the announcement
 *   BUG_OPEN     the opener reads `sleepers` before it stores the word
 *   BUG_WAKE     wakes one sleeper where several may sleep
 * (The model is sequentially consistent; that these four accesses must be seq_cst is checked
 * by the models under relacy/.)
 */
#ifndef WAITERS
#define WAITERS 2
#endif
#ifndef TURNS
#define TURNS 3
#endif

byte word;            /* W: opener */
byte sleepers;        /* fetch_add by waiters */
bit asleep[WAITERS];  /* the kernel's queue */
byte gone;

inline look() { same = word == seen }

/* futex_wait(word, seen): compares and sleeps in one step. */
inline futex_wait()
{
    atomic {
        if
#ifdef BUG_LOOK
        :: true -> asleep[me] = 1
#elif defined(BUG_ANNOUNCE)
        :: same -> asleep[me] = 1
        :: !same -> skip
#else
        :: word == seen -> asleep[me] = 1
        :: word != seen -> skip
#endif
        fi
    }
    !asleep[me]
}

proctype waiter(byte me)
{
    byte seen, spin;
    bit same;

    do
    :: seen == TURNS -> break
    :: seen < TURNS ->
        /* A bounded spin; the bound of one look covers all, being short of it is always possible. */
        look();
        do
        :: !same -> break
        :: same ->
#ifdef BUG_ANNOUNCE
            look();
            sleepers++;
            futex_wait();
#else
            sleepers++;
#ifndef BUG_LOOK
            look();
            if
            :: same -> futex_wait()
            :: !same -> skip
            fi;
#else
            futex_wait();
#endif
#endif
            sleepers--;
            look()
        od;
        assert(word > seen);
        seen = word
    od;
    gone++
}

proctype opener()
{
    byte turn, any, k;

    do
    :: turn < TURNS ->
        turn++;
#ifdef BUG_OPEN
        any = sleepers;
        word = turn;
#else
        word = turn;
        any = sleepers;
#endif
        if
        :: any > 0 ->
            d_step { /* futex_wake */
                k = 0;
                do
                :: k < WAITERS ->
                    if
                    :: asleep[k] ->
                        asleep[k] = 0;
#ifdef BUG_WAKE
                        k = WAITERS - 1
#endif
                    :: else
                    fi;
                    k++
                :: else -> break
                od;
                k = 0
            }
        :: else
        fi;
        any = 0
    :: else -> break
    od
}

init
{
    byte k;

    atomic {
        for (k : 0 .. WAITERS - 1) { run waiter(k) }
        run opener()
    }
    _nr_pr == 1;
    assert(gone == WAITERS && sleepers == 0)
}
