/* test_wire.c - the words that processes share: nothing is lost, nobody sleeps too long. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { WORKERS = 3, EACH = 4, ENVS = WORKERS * EACH, MS = 1000000 };
#define LONG (INT64_C(20000) * MS)

/* bells: one for each worker, the collector; tickets; commands; results, apart by worker */
typedef struct wire {
    _Alignas(SEER_WIRE_APART) char bell[WORKERS][SEER_WIRE_APART];
    char collector[SEER_WIRE_APART];
    char tickets[SEER_WIRE_APART];
    _Alignas(SEER_WIRE_APART) uint64_t command[ENVS];
    _Alignas(SEER_WIRE_APART) struct {
        _Alignas(SEER_WIRE_APART) char result[EACH][SEER_RESULT_BYTES];
        uint64_t value[EACH]; /* plain data, valid when its result is done */
    } worker[WORKERS];
    uint64_t asked[ENVS]; /* plain data, valid when its command is there */
    uint64_t stop;
} wire;

typedef struct job {
    wire *w;
    int worker;
    int64_t spin;
} job;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Takes commands, oldest first, and answers mixed(asked) until told to stop. */
static void serve(wire *w, int worker, int64_t spin_ns)
{
    uint64_t seen = 0;
    seer_spin spin = {.most_ns = spin_ns};
    int first = worker * EACH;
    for (;;) {
        seen = seer_bell_wait(w->bell[worker], seen, &spin, LONG);
        int k;
        while ((k = seer_command_oldest((char *)&w->command[first], w->worker[worker].result[0],
                                        SEER_RESULT_BYTES, EACH)) >= 0) {
            w->worker[worker].value[k] = mixed(w->asked[first + k]);
            seer_result_publish(w->worker[worker].result[k], w->command[first + k], w->tickets,
                                w->collector, w->asked[first + k] % 7 == 0);
        }
        if (seer_word_get(&w->stop)) return;
    }
}

static void *serve_thread(void *arg)
{
    job *j = arg;
    serve(j->w, j->worker, j->spin);
    return NULL;
}

/* Keeps all environments busy and takes `batch` at a time, the oldest ones first. */
static void drive(wire *w, int rounds, uint32_t batch, int64_t spin_ns)
{
    seer_spin spin = {.most_ns = spin_ns};
    uint64_t state = 11 + batch, number = 0, where[ENVS], wanted[ENVS], bells[WORKERS] = {0}, taken = 0;
    uint8_t ready[ENVS];
    uint32_t urgent = 0;
    int busy[ENVS] = {0}, wrong = 0, late = 0;
    for (int e = 0; e < ENVS; e++)
        where[e] = (uint64_t)(w->worker[e / EACH].result[e % EACH] - (char *)w);
    for (int round = 0; round < rounds; round++) {
        for (int e = 0; e < ENVS; e++) {
            if (busy[e]) continue;
            w->asked[e] = dice(&state);
            wanted[e] = ++number;
            seer_word_put(&w->command[e], number);
            busy[e] = 1;
            seer_bell_ring(w->bell[e / EACH], ++bells[e / EACH]);
        }
        int64_t start = now_ns();
        int32_t have = 0;
        while (have < (int32_t)batch && now_ns() - start < LONG) {
            have = seer_result_gather(w->collector, (char *)w, where, wanted, ENVS, batch, &spin, LONG,
                                      ready, &urgent);
        }
        late += have < (int32_t)batch;
        uint32_t left = batch;
        while (left--) { /* the ready one with the least ticket */
            int best = -1;
            uint64_t least = UINT64_MAX, ticket;
            for (int e = 0; e < ENVS; e++) {
                if (!ready[e] || !busy[e]) continue;
                memcpy(&ticket, (char *)w + where[e] + 8, sizeof ticket);
                if (ticket < least) least = ticket, best = e;
            }
            if (best < 0) break;
            wrong += w->worker[best / EACH].value[best % EACH] != mixed(w->asked[best]);
            busy[best] = 0;
            taken++;
        }
    }
    EQUAL(wrong, 0, "results that belong to other commands");
    EQUAL(late, 0, "waits that ended without enough results");
    EQUAL(taken, (uint64_t)rounds * batch, "results taken");
    seer_word_put(&w->stop, 1);
    for (int k = 0; k < WORKERS; k++) seer_bell_ring(w->bell[k], ++bells[k]);
}

static void with_threads(int rounds, uint32_t batch, int64_t spin)
{
    wire *w = zeros(sizeof(wire) + SEER_WIRE_APART);
    wire *at = (wire *)(((uintptr_t)w + SEER_WIRE_APART - 1) / SEER_WIRE_APART * SEER_WIRE_APART);
    pthread_t threads[WORKERS];
    job jobs[WORKERS];
    for (int k = 0; k < WORKERS; k++) {
        jobs[k] = (job){at, k, spin};
        pthread_create(&threads[k], NULL, serve_thread, &jobs[k]);
    }
    drive(at, rounds, batch, spin);
    for (int k = 0; k < WORKERS; k++) pthread_join(threads[k], NULL);
    free(w);
}

static void threads_that_sleep(void)
{
    with_threads(3000, ENVS, 0);
    with_threads(3000, 3, 0);
}

static void threads_that_spin(void)
{
    with_threads(1000, ENVS, 20000);
    with_threads(1000, 1, 20000);
}

static void processes(void)
{
    wire *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[WORKERS];
    for (int k = 0; k < WORKERS; k++) {
        pids[k] = fork();
        if (pids[k] == 0) {
            serve(w, k, 0);
            _exit(7);
        }
    }
    drive(w, 3000, 5, 0);
    for (int k = 0; k < WORKERS; k++) {
        int status = 0;
        EQUAL(waitpid(pids[k], &status, 0), pids[k], "a worker");
        EQUAL(WEXITSTATUS(status), 7, "how it ended");
    }
    munmap(w, sizeof *w);
}

static void what_the_caller_has_answered_itself_is_not_done(void)
{
    wire *w = zeros(sizeof(wire) + SEER_WIRE_APART);
    wire *at = (wire *)(((uintptr_t)w + SEER_WIRE_APART - 1) / SEER_WIRE_APART * SEER_WIRE_APART);
    seer_word_put(&at->command[0], 7);
    seer_word_put(&at->command[1], 5);
    seer_result_publish(at->worker[0].result[1], 9, at->tickets, at->collector, 0);
    EQUAL(seer_command_oldest((char *)at->command, at->worker[0].result[0], SEER_RESULT_BYTES, 2), 0,
          "the only one that is not answered");
    seer_result_publish(at->worker[0].result[0], 7, at->tickets, at->collector, 0);
    EQUAL(seer_command_oldest((char *)at->command, at->worker[0].result[0], SEER_RESULT_BYTES, 2), -1,
          "none is left");
    free(w);
}

static void a_wait_ends_in_time(void)
{
    seer_spin none = {0};
    wire *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int64_t start = now_ns();
    EQUAL(seer_bell_wait(w->bell[0], 0, &none, 20 * MS), 0, "nobody rang");
    int64_t took = now_ns() - start;
    CHECK(took >= 20 * MS && took < 2000 * MS, "it took %lld ns", (long long)took);
    uint64_t where = 0, wanted = 1;
    uint32_t urgent = 0;
    uint8_t ready = 9;
    start = now_ns();
    EQUAL(seer_result_gather(w->collector, w->worker[0].result[0], &where, &wanted, 1, 1, &none, 20 * MS,
                             &ready, &urgent), 0, "nothing was published");
    took = now_ns() - start;
    CHECK(took >= 20 * MS && took < 2000 * MS, "it took %lld ns", (long long)took);
    EQUAL(ready, 0, "ready");
    munmap(w, sizeof *w);
}

static void spinning_in_vain_ends_but_for_a_try_now_and_then(void)
{
    wire *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    seer_spin spin = {.most_ns = 20000};
    for (int k = 0; k < 20; k++) seer_bell_wait(w->bell[0], 0, &spin, 1000);
    EQUAL(spin.now_ns, 0, "after 20 waits in vain");
    EQUAL(spin.waits, 20, "waits");
    spin = (seer_spin){.most_ns = LONG};
    pid_t pid = fork();
    if (pid == 0) {
        usleep(20000);
        seer_bell_ring(w->bell[0], 1);
        _exit(0);
    }
    EQUAL(seer_bell_wait(w->bell[0], 0, &spin, LONG), 1, "rung while spinning");
    EQUAL(spin.now_ns, LONG, "it was worth it");
    waitpid(pid, NULL, 0);
    munmap(w, sizeof *w);
}

static void an_urgent_result_ends_a_wait(void)
{
    seer_spin none = {0};
    wire *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t where[2] = {0, SEER_RESULT_BYTES}, wanted[2] = {1, 1};
    uint32_t urgent = 0;
    uint8_t ready[2];
    char *base = w->worker[0].result[0];
    pid_t pid = fork();
    if (pid == 0) {
        usleep(50000);
        seer_result_publish(base, 1, w->tickets, w->collector, 1);
        _exit(0);
    }
    EQUAL(seer_result_gather(w->collector, base, where, wanted, 2, 2, &none, LONG, ready, &urgent), 1, "one of two");
    EQUAL(ready[0], 1, "the urgent one");
    EQUAL(urgent, 1, "urgent results seen");
    EQUAL(seer_result_gather(w->collector, base, where, wanted, 2, 2, &none, 20 * MS, ready, &urgent), 1, "seen once");
    waitpid(pid, NULL, 0);
    munmap(w, sizeof *w);
}

#if defined(__linux__) /* elsewhere a wait is many short ones */
static void on_alarm(int signal) { (void)signal; }

static void a_signal_ends_a_wait(void)
{
    seer_spin none = {0};
    wire *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_handler = on_alarm}, before;
    sigaction(SIGALRM, &action, &before);
    alarm(1);
    int64_t start = now_ns();
    seer_bell_wait(w->bell[0], 0, &none, LONG);
    CHECK(now_ns() - start < LONG / 2, "the wait went on");
    alarm(0);
    sigaction(SIGALRM, &before, NULL);
    munmap(w, sizeof *w);
}
#endif

/* A caller that starts a worker, which starts a process of its own; then the caller is killed. */
static void a_watched_process_ends_with_its_caller_and_all_it_started(void)
{
    int channel[2], tell[2];
    CHECK(pipe(tell) == 0 && pipe(channel) == 0, "pipes");
    pid_t caller = fork();
    if (caller == 0) {
        pid_t worker = fork();
        if (worker == 0) {
            close(channel[1]);
            setpgid(0, 0);
            if (seer_watch(-1, channel[0])) _exit(1);
            pid_t own = fork();
            if (own == 0) {
                pause();
                _exit(0);
            }
            pid_t pids[2] = {getpid(), own};
            if (write(tell[1], pids, sizeof pids) != sizeof pids) _exit(1);
            for (;;) pause();
        }
        close(channel[0]);
        pause();
        _exit(0);
    }
    close(channel[1]); /* from now on only the caller holds it */
    close(tell[1]);
    pid_t pids[2] = {0, 0};
    CHECK(read(tell[0], pids, sizeof pids) == sizeof pids, "the worker told its numbers");
    usleep(50000);
    CHECK(kill(pids[0], 0) == 0 && kill(pids[1], 0) == 0, "both run while the caller does");
    kill(caller, SIGKILL);
    waitpid(caller, NULL, 0);
    char byte;
    /* the pipe ends when nobody holds it any more: worker and its child are gone */
    EQUAL(read(tell[0], &byte, 1), 0, "end of file");
    close(tell[0]);
    close(channel[0]);
}

int main(void)
{
    TEST(threads_that_sleep);
    TEST(threads_that_spin);
    TEST(processes);
    TEST(what_the_caller_has_answered_itself_is_not_done);
    TEST(a_wait_ends_in_time);
    TEST(spinning_in_vain_ends_but_for_a_try_now_and_then);
    TEST(an_urgent_result_ends_a_wait);
#if defined(__linux__)
    TEST(a_signal_ends_a_wait);
#endif
    TEST(a_watched_process_ends_with_its_caller_and_all_it_started);
    return failures != 0;
}
