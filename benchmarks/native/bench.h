/* bench.h - clock, medians and JSON for the C benchmarks. */
#ifndef SEER_BENCH_H
#define SEER_BENCH_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline double bench_clock(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ns, wall; ns, processor time of the whole process. */
static inline double bench_now(void) { return bench_clock(CLOCK_MONOTONIC); }
static inline double bench_cpu(void) { return bench_clock(CLOCK_PROCESS_CPUTIME_ID); }

/* ns of processor time spent by the whole machine, 0 where that is not known. */
static inline double bench_machine(void)
{
    unsigned long long t[8] = {0}; /* user nice system idle iowait irq softirq steal */
    FILE *f = fopen("/proc/stat", "r");
    int n = f ? fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
                       &t[4], &t[5], &t[6], &t[7]) : 0;
    if (f)
        fclose(f);
    double ticks = (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]);
    return n == 8 ? ticks * 1e9 / (double)sysconf(_SC_CLK_TCK) : 0;
}

/* What else ran: how many CPUs all other processes kept busy since a moment. */
typedef struct bench_moment {
    double wall, own, machine;
} bench_moment;

static inline bench_moment bench_mark(void)
{
    return (bench_moment){bench_now(), bench_cpu(), bench_machine()};
}

static inline double bench_others(bench_moment since)
{
    bench_moment now = bench_mark();
    double others = (now.machine - since.machine - (now.own - since.own)) / (now.wall - since.wall);
    return others > 0 ? others : 0;
}

static int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct bench_stat {
    double median, low, high; /* low, high: quartiles */
} bench_stat;

/* Sorts values. */
static inline bench_stat bench_summary(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, bench_compare);
    double median = n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
    return (bench_stat){median, values[n / 4], values[n - 1 - n / 4]};
}

static inline void bench_field(const char *name, bench_stat s)
{
    printf(",\"%s\":%.5g,\"%s_low\":%.5g,\"%s_high\":%.5g", name, s.median, name, s.low, name,
           s.high);
}

static inline void *bench_alloc(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "out of memory: %zu bytes\n", bytes);
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

#endif
