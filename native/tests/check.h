/* check.h - what the C tests share: checks that say what was expected, and a mixing function. */
#ifndef SEER_CHECK_H
#define SEER_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seer.h"

/* Of the whole program: weak, so that all its files count into one. Checks are made on one thread. */
int failures __attribute__((weak));

#define CHECK(condition, ...)                                                                     \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            if (failures++ < 20) {                                                                \
                fprintf(stderr, "%s:%d: not so: %s: ", __FILE__, __LINE__, #condition);           \
                fprintf(stderr, __VA_ARGS__);                                                     \
                fprintf(stderr, "\n");                                                            \
            }                                                                                     \
        }                                                                                         \
    } while (0)

#define EQUAL(got, wanted, ...)                                                                   \
    do {                                                                                          \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                         \
        if (got_ != wanted_ && failures++ < 20) {                                                 \
            fprintf(stderr, "%s:%d: %s: expected %lld, got %lld: ", __FILE__, __LINE__, #got,     \
                    wanted_, got_);                                                               \
            fprintf(stderr, __VA_ARGS__);                                                         \
            fprintf(stderr, "\n");                                                                \
        }                                                                                         \
    } while (0)

#define TEST(name)                                                                                \
    do {                                                                                          \
        int before_ = failures;                                                                   \
        name();                                                                                   \
        printf("%-52s %s\n", #name, failures == before_ ? "ok" : "FAILED");                       \
        fflush(stdout);                                                                           \
    } while (0)

/* The finalizer of splitmix64: here only to mix test data. */
static inline uint64_t mixed(uint64_t z)
{
    z ^= z >> 30;
    z *= UINT64_C(0xBF58476D1CE4E5B9);
    z ^= z >> 27;
    z *= UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static inline uint64_t fold(uint64_t hash, uint64_t value)
{
    return mixed(hash + UINT64_C(0x9E3779B97F4A7C15) + value);
}

/* A plain generator for the tests' own choices. */
static inline uint64_t dice(uint64_t *state)
{
    return mixed(*state += UINT64_C(0x9E3779B97F4A7C15));
}

static inline void *zeros(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p) {
        fprintf(stderr, "no memory for a test\n");
        exit(2);
    }
    return memset(p, 0, (bytes + 127) / 64 * 64);
}

/* Steps until no pause for signals is asked for. */
static inline int stepped(seer_engine *engine)
{
    int code = seer_engine_step(engine, NULL);
    while (code == SEER_AGAIN) code = seer_engine_continue(engine);
    return code;
}

static inline int reset_all(seer_engine *engine, const uint64_t *seeds, const uint64_t *episodes)
{
    int code = seer_engine_reset(engine, NULL, seeds, episodes);
    while (code == SEER_AGAIN) code = seer_engine_continue(engine);
    return code;
}

#endif
