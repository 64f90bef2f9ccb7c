#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

typedef struct thread_slot {
    _Alignas(SEER_APART) SEER_ATOMIC(seer_engine *) looks_at; /* W: its thread  R: whoever frees */
    pthread_t thread;
    uint32_t pinned;
} thread_slot;

static struct {
    _Alignas(SEER_APART) SEER_ATOMIC(uint32_t) taken; /* W: callers (CAS) */
    /* read by helpers all the time, so written only when something changes */
    _Alignas(SEER_APART) SEER_ATOMIC(seer_engine *) job; /* W: who has the pool, who frees */
    SEER_ATOMIC(uint32_t) spin_ns, stop;
    SEER_ATOMIC(int32_t) caller_cpu; /* where the caller ran when it called; -1: it does not matter */
    uint32_t threads; /* running; W: who has the pool */
    uint32_t forks;
    _Alignas(SEER_APART) seer_word epoch; /* W: who has the pool */
    thread_slot slot[SEER_MAX_THREADS];
} pool;

int64_t seer_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#if defined(__linux__)
static uint32_t *low_half(seer_word *word)
{
    uint32_t *half = (uint32_t *)(void *)&word->value;
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? half + 1 : half;
}

void seer_sleep(seer_word *word, uint32_t low)
{
    syscall(SYS_futex, low_half(word), FUTEX_WAIT_PRIVATE, low, NULL, NULL, 0);
}

void seer_wake(seer_word *word)
{
    syscall(SYS_futex, low_half(word), FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}
#else
/* No futex: sleepers look again every 50 us. */
void seer_sleep(seer_word *word, uint32_t low)
{
    (void)word;
    (void)low;
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

void seer_wake(seer_word *word) { (void)word; }
#endif

#if defined(__linux__)
static cpu_set_t usable; /* of the process when the pool was set up */
#endif

static void pin_to(uint32_t index, int pin)
{
#if defined(__linux__)
    cpu_set_t set = usable;
    int count = CPU_COUNT(&usable);
    if (count == 0) return;
    if (pin) {
        int wanted = (int)index % count, cpu = -1;
        while (wanted >= 0)
            if (CPU_ISSET(++cpu, &usable)) wanted--;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
    }
    sched_setaffinity(0, sizeof set, &set);
#else
    (void)index;
    (void)pin;
#endif
}

static int32_t this_cpu(void)
{
#if defined(__linux__)
    return sched_getcpu();
#else
    return -1;
#endif
}

static int enough_cpus(uint32_t threads)
{
#if defined(__linux__)
    return (uint32_t)CPU_COUNT(&usable) >= threads;
#else
    (void)threads;
    return 0;
#endif
}

/* The kernel likes to wake a helper on the very CPU that its caller keeps busy, where it waits for
 * milliseconds: before it sleeps it leaves that CPU for good, and when it finds itself there, then. */
static void leave_callers_cpu(int only_if_there)
{
#if defined(__linux__)
    int32_t cpu = seer_load(&pool.caller_cpu, relaxed); /* relaxed: a hint */
    if (cpu < 0 || (only_if_there && this_cpu() != cpu)) return;
    cpu_set_t others = usable;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others)) sched_setaffinity(0, sizeof others, &others);
#else
    (void)only_if_there;
#endif
}

/* Spins a while, then sleeps, until the epoch is no longer `seen`. */
static uint64_t await_epoch(uint64_t seen, int pinned)
{
    uint64_t value = seer_word_look(&pool.epoch);
    if (value != seen) return value;
    int64_t until = seer_clock() + seer_load(&pool.spin_ns, relaxed); /* relaxed: a tuning value */
    do {
        for (int k = 0; k < 16; k++) {
            seer_pause();
            if ((value = seer_word_look(&pool.epoch)) != seen) return value;
        }
    } while (seer_clock() < until);
    if (!pinned) leave_callers_cpu(0);
    return seer_word_sleep(&pool.epoch, seen);
}

static void *thread_main(void *argument)
{
    uint32_t index = (uint32_t)(uintptr_t)argument;
    thread_slot *slot = &pool.slot[index];
    uint64_t seen = 0;
    for (;;) {
        seen = await_epoch(seen, (int)slot->pinned);
        if (seer_load(&pool.stop, acquire)) return NULL; /* [K2] acquire: pairs with [K1] */
        seer_engine *job = seer_load(&pool.job, relaxed); /* relaxed: looked at again below */
        if (!job) continue;
        /* [H1] seq_cst: announced before the second look at the job, while seer_pool_forget takes
         * the job away before it looks here; one of the two sees the other. Pairs with [H2]. */
        seer_store(&slot->looks_at, job, seq_cst);
        if (seer_load(&pool.job, seq_cst) == job && index < job->threads) {
            if (job->pool.pin != slot->pinned) pin_to(index, (int)(slot->pinned = job->pool.pin));
            if (!slot->pinned) leave_callers_cpu(1);
            seer_engine_help(job, index);
        }
        /* [H3] release: all done with the engine; pairs with [H4]. */
        seer_store(&slot->looks_at, (seer_engine *)NULL, release);
    }
}

/* ---- fork and exit ------------------------------------------------------- */

static void stop_threads(void)
{
    if (!pool.threads) return;
    seer_store(&pool.stop, 1u, release); /* [K1] release: pairs with [K2] */
    seer_word_advance(&pool.epoch, seer_load(&pool.epoch.value, relaxed) + 1);
    for (uint32_t k = 1; k <= pool.threads; k++) pthread_join(pool.slot[k].thread, NULL);
    pool.threads = 0;
    seer_store(&pool.stop, 0u, relaxed); /* relaxed: no thread is left to read it */
}

static int take(void)
{
    uint32_t free = 0;
    /* [T2] acquire: pairs with [T1]; the pool is as its last holder left it. */
    return seer_cas(&pool.taken, &free, 1u, acquire, relaxed);
}

static _Thread_local int held_by_fork; /* several threads may fork at once */

/* An idle pool is joined, so that parent and child both start from none; one that is in use stays
 * as it is. The child's engines that were stepping are told apart by the count of forks. */
static void before_fork(void)
{
    if ((held_by_fork = take())) stop_threads();
}

static void after_fork_in_parent(void)
{
    if (held_by_fork) seer_pool_give();
}

static void after_fork_in_child(void)
{
    pool.threads = 0;
    pool.forks++;
    for (uint32_t k = 0; k < SEER_MAX_THREADS; k++)
        seer_store(&pool.slot[k].looks_at, (seer_engine *)NULL, relaxed); /* relaxed: one thread is left */
    seer_store(&pool.job, (seer_engine *)NULL, relaxed);
    seer_store(&pool.epoch.sleepers, 0u, relaxed);
    seer_pool_give();
}

static void at_exit(void)
{
    if (take()) stop_threads(); /* else a step is running: its threads end with the process */
}

static void set_up(void)
{
#if defined(__linux__)
    if (sched_getaffinity(0, sizeof usable, &usable)) CPU_ZERO(&usable);
#endif
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    atexit(at_exit);
}

/* ---- the interface ------------------------------------------------------- */

int seer_pool_take(seer_engine *engine)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up);
    if (!take()) return 0;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are for the caller's threads */
    while (pool.threads + 1 < engine->threads) {
        uint32_t index = pool.threads + 1;
        pool.slot[index].pinned = 0;
        if (pthread_create(&pool.slot[index].thread, NULL, thread_main, (void *)(uintptr_t)index))
            break; /* fewer helpers: the others take their share */
        pool.threads = index;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (seer_load(&pool.spin_ns, relaxed) != engine->pool.spin_ns)
        seer_store(&pool.spin_ns, engine->pool.spin_ns, relaxed); /* relaxed: a tuning value */
    return 1;
}

uint32_t seer_pool_call(seer_engine *engine)
{
    if (seer_load(&pool.epoch.sleepers, relaxed)) /* relaxed: hints */
        seer_store(&pool.caller_cpu, enough_cpus(engine->threads) ? this_cpu() : -1, relaxed);
    /* only this thread sets it, and seer_pool_forget takes away only what is being freed */
    if (seer_load(&pool.job, relaxed) != engine) seer_store(&pool.job, engine, seq_cst); /* pairs with [H1] */
    return (uint32_t)seer_word_advance(&pool.epoch, seer_load(&pool.epoch.value, relaxed) + 1);
}

void seer_pool_give(void)
{
    seer_store(&pool.taken, 0u, release); /* [T1] release: pairs with [T2] */
}

void seer_pool_forget(seer_engine *engine)
{
    seer_engine *job = engine;
    /* [H2] seq_cst: taken away before the looks below; pairs with [H1]. */
    seer_cas(&pool.job, &job, (seer_engine *)NULL, seq_cst, seq_cst);
    for (uint32_t k = 1; k < SEER_MAX_THREADS; k++)
        /* [H4] seq_cst (hence acquire): pairs with [H1] and [H3]. */
        while (seer_load(&pool.slot[k].looks_at, seq_cst) == engine) sched_yield();
}

uint32_t seer_pool_forks(void) { return pool.forks; }

int seer_pool_asleep(void)
{
    return seer_load(&pool.epoch.sleepers, relaxed) > 0; /* relaxed: a hint */
}

int seer_pool_wants(const seer_engine *engine)
{
    /* relaxed: looked at again and again */
    return seer_load(&pool.job, relaxed) == engine && !seer_load(&pool.stop, relaxed);
}
