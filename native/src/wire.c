#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#include "pool.h"

enum { PAUSES = 16, WATCH_STACK = 64 * 1024 };

/* ---- sleeping -------------------------------------------------------------------------------- */

#if defined(__linux__)
static uint32_t *low_half(seer_bell *bell)
{
    uint32_t *half = (uint32_t *)(void *)&bell->value;
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? half + 1 : half;
}

/* Sleeps while the low half of the bell is `low`. Returns 0 when a signal came. */
static int sleep_on(seer_bell *bell, uint32_t low, int64_t ns)
{
    struct timespec limit = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    return syscall(SYS_futex, low_half(bell), FUTEX_WAIT, low, &limit, NULL, 0) == 0 ||
           errno != EINTR;
}

static void wake_all(seer_bell *bell)
{
    syscall(SYS_futex, low_half(bell), FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
#else
/* No futex between processes: sleepers look again every 50 us. */
static int sleep_on(seer_bell *bell, uint32_t low, int64_t ns)
{
    (void)bell;
    (void)low;
    return nanosleep(&(struct timespec){.tv_nsec = ns < 50000 ? (long)ns : 50000}, NULL) == 0;
}

static void wake_all(seer_bell *bell) { (void)bell; }
#endif

/* ---- spinning -------------------------------------------------------------------------------- */

enum { TRY_AGAIN = 32, LEAST_NS = 500 };

/* How long to spin in this wait: what has been worth it lately, and all of it now and then. */
static int64_t spin_span(seer_spin *spin)
{
    return spin->waits++ % TRY_AGAIN == 0 ? spin->most_ns : spin->now_ns;
}

/* A spin that was in vain kept another process from running; where it was not, it saves a sleep. */
static void spin_learn(seer_spin *spin, int worth)
{
    if (worth)
        spin->now_ns = spin->most_ns;
    else
        spin->now_ns = spin->now_ns / 2 < LEAST_NS ? 0 : spin->now_ns / 2;
}

/* ---- bells ----------------------------------------------------------------------------------- */

int32_t seer_bell_ring(void *at, uint64_t value)
{
    seer_bell *bell = at;
    /* [B1] seq_cst (hence release): publishes the command; pairs with [B2], and with [B3] so that
     * the ringer sees the sleeper or the sleeper sees the value. */
    seer_store(&bell->value, value, seq_cst);
    /* [B4] seq_cst: pairs with [B3]. */
    if (seer_likely(seer_load(&bell->sleepers, seq_cst) == 0)) return 0;
    wake_all(bell);
    return 1;
}

uint64_t seer_bell_value(const void *at)
{
    /* [B2] acquire: pairs with [B1] and [B5]; what was written before the ringing is visible. */
    return seer_load(&((seer_bell *)(uintptr_t)at)->value, acquire);
}

uint64_t seer_bell_wait(void *at, uint64_t seen, seer_spin *spin, int64_t timeout_ns)
{
    seer_bell *bell = at;
    uint64_t value = seer_bell_value(bell); /* [B2] */
    if (value != seen) return value;
    int64_t start = seer_clock(), now = start, span = spin_span(spin);
    while (now - start < span) {
        for (int k = 0; k < PAUSES; k++) {
            seer_pause();
            if ((value = seer_bell_value(bell)) != seen) { /* [B2] */
                spin_learn(spin, 1);
                return value;
            }
        }
        now = seer_clock();
    }
    spin_learn(spin, 0);
    /* [B3] seq_cst: announces the sleeper before its second look; pairs with [B1], [B4]. */
    seer_add(&bell->sleepers, 1u, seq_cst);
    while ((value = seer_load(&bell->value, seq_cst)) == seen && (now = seer_clock()) - start < timeout_ns)
        if (!sleep_on(bell, (uint32_t)seen, timeout_ns - (now - start))) break;
    seer_add(&bell->sleepers, (uint32_t)-1, relaxed); /* relaxed: at worst one wake-up too many */
    return value;
}

/* ---- results --------------------------------------------------------------------------------- */

void seer_word_put(void *word, uint64_t value)
{
    /* [R1] release: publishes what was written before; pairs with [R2]. */
    seer_store((SEER_ATOMIC(uint64_t) *)word, value, release);
}

uint64_t seer_word_get(const void *word)
{
    /* [R2] acquire: pairs with [R1]. */
    return seer_load((SEER_ATOMIC(uint64_t) *)(uintptr_t)word, acquire);
}

int32_t seer_result_publish(void *result, uint64_t number, void *tickets, void *collector,
                            int32_t urgent)
{
    seer_bell *bell = collector;
    seer_result *r = result;
    /* relaxed: only the order of the numbers among themselves matters */
    r->ticket = seer_add((SEER_ATOMIC(uint64_t) *)tickets, UINT64_C(1), relaxed);
    seer_word_put(&r->done, number); /* [R1] */
    /* [B9] release: whoever sees it sees the result; pairs with [B8]. */
    if (urgent) seer_add(&bell->urgent, 1u, release);
    /* [B5] seq_cst (hence release): comes after [R1], so that whoever counts on this value sees the
     * result; pairs with [B2], and with [B6] as [B1] does with [B3]. */
    uint64_t value = seer_add(&bell->value, UINT64_C(1), seq_cst) + 1;
    /* [B7] seq_cst: pairs with [B6]. */
    if (seer_load(&bell->sleepers, seq_cst) == 0) return 0;
    /* relaxed: written before [B6] by the sleeper just seen. An older target belongs to a wait
     * whose value has been looked at again since, by [B6]. */
    if (!urgent && (int64_t)(value - seer_load(&bell->target, relaxed)) < 0) return 0;
    wake_all(bell);
    return 1;
}

/* Looks which results are there; returns how many. */
static uint32_t look(char *base, const uint64_t *where, const uint64_t *wanted, uint32_t n, uint8_t *ready)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < n; k++)
        if (!ready[k]) {
            ready[k] = seer_word_get(base + where[k]) == wanted[k]; /* [R2] */
            count += ready[k];
        }
    return count;
}

int32_t seer_result_gather(void *collector, char *base, const uint64_t *where,
                           const uint64_t *wanted, uint32_t n, uint32_t count, seer_spin *spin,
                           int64_t timeout_ns, uint8_t *ready, uint32_t *urgent)
{
    seer_bell *bell = collector;
    uint32_t have = 0, before = *urgent;
    for (uint32_t k = 0; k < n; k++) ready[k] = 0;
    *urgent = seer_load(&bell->urgent, acquire); /* [B8] acquire: pairs with [B9] */
    have += look(base, where, wanted, n, ready);
    if (have >= count || *urgent != before) return (int32_t)have;
    int64_t start = seer_clock(), now = start, span = timeout_ns > 0 ? spin_span(spin) : 0;
    while (now - start < span) {
        for (int k = 0; k < PAUSES; k++) {
            seer_pause();
            if ((have += look(base, where, wanted, n, ready)) >= count) {
                spin_learn(spin, 1);
                return (int32_t)have;
            }
        }
        now = seer_clock();
    }
    if (span) spin_learn(spin, 0);
    for (;;) {
        /* The value first, the results second: whatever is missing then adds to the value yet. */
        uint64_t value = seer_bell_value(bell); /* [B2] */
        have += look(base, where, wanted, n, ready);
        if (have >= count || seer_load(&bell->urgent, relaxed) != before) break; /* relaxed: [B8] follows */
        if ((now = seer_clock()) - start >= timeout_ns) break;
        uint64_t target = value + (count - have);
        seer_store(&bell->target, target, relaxed); /* relaxed: published by [B6] */
        /* [B6] seq_cst: announces the sleeper before its second look; pairs with [B5], [B7]. */
        seer_add(&bell->sleepers, 1u, seq_cst);
        int slept = 1;
        uint64_t latest;
        while (slept && (int64_t)((latest = seer_load(&bell->value, seq_cst)) - target) < 0 &&
               seer_load(&bell->urgent, relaxed) == before && (now = seer_clock()) - start < timeout_ns)
            slept = sleep_on(bell, (uint32_t)latest, timeout_ns - (now - start));
        seer_add(&bell->sleepers, (uint32_t)-1, relaxed); /* relaxed: at worst one wake-up too many */
        if (!slept) break;
    }
    *urgent = seer_load(&bell->urgent, acquire); /* [B8] */
    have += look(base, where, wanted, n, ready);
    return (int32_t)have;
}

int32_t seer_command_oldest(const char *commands, const char *results, uint64_t stride, uint32_t n)
{
    uint64_t least = UINT64_MAX;
    int32_t oldest = -1;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t command = seer_word_get(commands + k * sizeof(uint64_t)); /* [R2] */
        /* relaxed: the reader is the only one who writes it */
        uint64_t done = seer_load(&((seer_result *)(uintptr_t)(results + k * stride))->done, relaxed);
        /* The caller may have answered itself, with a later number. */
        if (command > done && command < least) {
            least = command;
            oldest = (int32_t)k;
        }
    }
    return oldest;
}

/* ---- the watchdog ---------------------------------------------------------------------------- */

typedef struct watched {
    int caller, channel;
} watched;

/* A caller that is gone can't be told anything: the process ends at once, and with it what it
 * started, if it leads a group of its own. */
static void end_all(void)
{
    if (getpgrp() == getpid()) kill(0, SIGKILL);
    kill(getpid(), SIGKILL);
    _exit(1);
}

static void *watch(void *arg)
{
    watched *w = arg;
    /* A pidfd becomes readable at the end of its process; a channel hangs up when nobody holds
     * its other end. */
    struct pollfd fds[2] = {{.fd = w->caller, .events = POLLIN}, {.fd = w->channel, .events = 0}};
    for (;;) {
        if (poll(fds, 2, -1) < 0) continue;
        for (int k = 0; k < 2; k++) {
            if (fds[k].revents & (POLLIN | POLLHUP | POLLERR)) end_all();
            if (fds[k].revents & POLLNVAL) fds[k].fd = -1; /* closed by the environment */
        }
        if (fds[0].fd < 0 && fds[1].fd < 0) return NULL;
    }
}

int32_t seer_watch(int32_t caller, int32_t channel)
{
    static watched w;
    w = (watched){caller, channel};
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    int error = pthread_attr_init(&attributes);
    if (error) return error;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, WATCH_STACK);
    /* Signals are for the process's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, watch, &w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}
