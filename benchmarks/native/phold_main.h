/* phold_main.h - command line of phold.c; included once, there. */

enum { PHOLD_CASES = 8, PHOLD_REPEATS = 1001,
       PHOLD_WARM = 3 }; /* untimed rounds: an engine learns which windows to share */

typedef struct phold_options {
    phold_params params;
    seer_pool_config pool;
    uint32_t threads[PHOLD_CASES];
    int cases, repeat, heap;
    double events, work_ns;
} phold_options;

static const char phold_usage[] =
    "phold [--entities 1024] [--each 1] [--lookahead 0.1] [--remote 0.25] [--events 2e6]\n"
    "      [--work rounds | --work-ns ns] [--hot 64] [--skew 0.5] [--skew-events 0.5]\n"
    "      [--step units] [--threads 1,2] [--axis lanes|worlds] [--grain 0] [--spin us] [--pin]\n"
    "      [--share] [--repeat 9] [--no-heap]\n";

static _Noreturn void phold_wrong(const char *what)
{
    fprintf(stderr, "phold: %s\n%s", what, phold_usage);
    exit(2);
}

static double phold_number(const char *name, const char *text, double low, double high)
{
    char *end, message[160];
    double x = text ? strtod(text, &end) : NAN;
    if (!text || end == text || *end || !(x >= low && x <= high)) {
        snprintf(message, sizeof message, "%s takes a number from %g to %g, got %s", name, low,
                 high, text ? text : "nothing");
        phold_wrong(message);
    }
    return x;
}

static void phold_threads(phold_options *o, const char *text)
{
    o->cases = 0;
    for (char *next; text && *text && o->cases < PHOLD_CASES; text = *next ? next + 1 : next) {
        unsigned long t = strtoul(text, &next, 10);
        if (next == text || !t || t > SEER_MAX_THREADS || (*next && *next != ','))
            phold_wrong("--threads takes numbers of threads with commas between");
        o->threads[o->cases++] = (uint32_t)t;
    }
}

static phold_options phold_parse(int argc, char **argv)
{
    phold_options o = {
        .params = {.entities = 1024, .each = 1, .lookahead = 0.1, .remote = 0.25, .hot = 64},
        .pool = {.axis = SEER_AXIS_LANES, .spin_ns = 20000},
        .threads = {1}, .cases = 1, .repeat = 9, .heap = 1, .events = 2e6};
    for (int k = 1; k < argc; k++) {
        const char *name = argv[k], *value = k + 1 < argc ? argv[k + 1] : NULL;
        phold_params *p = &o.params;
#define IS(option) (!strcmp(name, option))
#define NUMBER(low, high) (k++, phold_number(name, value, low, high))
        if (IS("--entities")) p->entities = (uint32_t)NUMBER(1, 1 << 28);
        else if (IS("--each")) p->each = (uint32_t)NUMBER(1, 1 << 20);
        else if (IS("--lookahead")) p->lookahead = NUMBER(0, 1e6);
        else if (IS("--remote")) p->remote = NUMBER(0, 1);
        else if (IS("--work")) p->work = (uint32_t)NUMBER(0, 1e9);
        else if (IS("--work-ns")) o.work_ns = NUMBER(0, 1e9);
        else if (IS("--hot")) p->hot = (uint32_t)NUMBER(1, 1 << 28);
        else if (IS("--skew")) p->skew = NUMBER(0, 1);
        else if (IS("--skew-events")) p->skew_events = NUMBER(0, 1);
        else if (IS("--step")) p->step = NUMBER(1e-3, 1e9);
        else if (IS("--events")) o.events = NUMBER(1, 1e13);
        else if (IS("--grain")) o.pool.grain = (uint32_t)NUMBER(0, 1 << 28);
        else if (IS("--spin")) o.pool.spin_ns = (uint32_t)(NUMBER(0, 1e6) * 1e3);
        else if (IS("--repeat")) o.repeat = (int)NUMBER(1, PHOLD_REPEATS);
        else if (IS("--threads")) phold_threads(&o, (k++, value));
        else if (IS("--pin")) o.pool.pin = 1;
        else if (IS("--share")) o.pool.share = 1;
        else if (IS("--no-heap")) o.heap = 0;
        else if (IS("--axis") && value && (!strcmp(value, "lanes") || !strcmp(value, "worlds")))
            o.pool.axis = *argv[++k] == 'l' ? SEER_AXIS_LANES : SEER_AXIS_WORLDS;
        else phold_wrong(name);
#undef IS
#undef NUMBER
    }
    phold_params *p = &o.params;
    if (o.work_ns > 0)
        p->work = (uint32_t)lrint(o.work_ns / phold_round_ns());
    /* In the steady state every event is followed by the next 1 + lookahead later. */
    double units = o.events * (1 + p->lookahead) / p->entities / p->each;
    if (!(p->step > 0))
        p->step = units < 100 ? units : 100; /* long: the cost of a call is not what is measured */
    p->steps = (uint32_t)lrint(units / p->step);
    if (!p->steps)
        p->steps = 1;
    return o;
}

static void phold_report(const phold_options *o, double others, int c, const phold_result *last, double *ns,
                         double *cpu, double *heap, double *heap_cpu, double *first, double *ratio,
                         double *ratio_cpu, double *speedup)
{
    const phold_params *p = &o->params;
    printf("{\"bench\":\"phold\",\"entities\":%u,\"each\":%u,\"lookahead\":%g,\"work\":%u,"
           "\"hot\":%u,\"skew\":%g,\"skew_events\":%g,\"threads\":%u,\"axis\":\"%s\",\"grain\":%u,"
           "\"spin_us\":%g,\"step\":%g,\"steps\":%u,\"repeat\":%d,\"cpus\":%ld,\"others\":%.3f",
           p->entities, p->each, p->lookahead, p->work, p->hot, p->skew, p->skew_events,
           o->threads[c], o->pool.axis == SEER_AXIS_LANES ? "lanes" : "worlds", o->pool.grain,
           o->pool.spin_ns / 1e3, p->step, p->steps, o->repeat, sysconf(_SC_NPROCESSORS_ONLN),
           others);
    printf(",\"events\":%llu,\"windows\":%llu,\"events_per_window\":%.1f,\"shared\":%llu,"
           "\"steals\":%llu,\"cas_retries\":%llu,\"sleeps\":%llu,\"wakes\":%llu",
           (unsigned long long)last->events, (unsigned long long)last->windows,
           (double)last->events / (double)(last->windows ? last->windows : 1),
           (unsigned long long)last->shared, (unsigned long long)last->steals,
           (unsigned long long)last->cas_retries, (unsigned long long)last->sleeps,
           (unsigned long long)last->wakes);
    bench_field("ns", bench_summary(ns, o->repeat));
    bench_field("cpu_ns", bench_summary(cpu, o->repeat));
    if (o->heap) {
        bench_field("heap_ns", bench_summary(heap, o->repeat));
        bench_field("heap_cpu_ns", bench_summary(heap_cpu, o->repeat));
        bench_field("heap_over_engine", bench_summary(ratio, o->repeat));
        bench_field("heap_over_engine_cpu", bench_summary(ratio_cpu, o->repeat));
    }
    if (c) {
        bench_field("first_ns", bench_summary(first, o->repeat));
        bench_field("speedup", bench_summary(speedup, o->repeat));
    }
    printf(",\"checksum\":\"%016llx\"}\n", (unsigned long long)last->checksum);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    phold_options o = phold_parse(argc, argv);
    static double ns[PHOLD_CASES][PHOLD_REPEATS], cpu[PHOLD_CASES][PHOLD_REPEATS];
    static double heap[PHOLD_REPEATS], heap_cpu[PHOLD_REPEATS];
    phold_engine *engine[PHOLD_CASES] = {0};
    phold_result result[PHOLD_CASES], reference = {0};
    for (int c = 0; c < o.cases; c++) {
        o.pool.threads = o.threads[c];
        if (!(engine[c] = phold_engine_new(&o.params, &o.pool)))
            return 1;
    }
    bench_moment start = bench_mark();
    for (int r = -PHOLD_WARM; r < o.repeat; r++) {
        int k = r < 0 ? 0 : r;
        if (o.heap) {
            phold_heap(&o.params, &reference);
            heap[k] = reference.ns / (double)reference.events;
            heap_cpu[k] = reference.cpu_ns / (double)reference.events;
        }
        for (int c = 0; c < o.cases; c++) {
            if (phold_engine_run(engine[c], &result[c]))
                return 1;
            ns[c][k] = result[c].ns / (double)result[c].events;
            cpu[c][k] = result[c].cpu_ns / (double)result[c].events;
            const phold_result *want = o.heap ? &reference : &result[0];
            if (result[c].checksum != want->checksum || result[c].events != want->events) {
                fprintf(stderr, "%u threads: %llu events, checksum %016llx; expected %llu, %016llx\n",
                        o.threads[c], (unsigned long long)result[c].events,
                        (unsigned long long)result[c].checksum, (unsigned long long)want->events,
                        (unsigned long long)want->checksum);
                return 1;
            }
        }
    }
    double others = bench_others(start);
    if (!o.cases) {
        printf("{\"bench\":\"phold\",\"entities\":%u,\"each\":%u,\"events\":%llu",
               o.params.entities, o.params.each, (unsigned long long)reference.events);
        bench_field("heap_ns", bench_summary(heap, o.repeat));
        bench_field("heap_cpu_ns", bench_summary(heap_cpu, o.repeat));
        printf(",\"checksum\":\"%016llx\"}\n", (unsigned long long)reference.checksum);
    }
    static double ratio[PHOLD_CASES][PHOLD_REPEATS], ratio_cpu[PHOLD_CASES][PHOLD_REPEATS];
    static double speedup[PHOLD_CASES][PHOLD_REPEATS], copy[5][PHOLD_REPEATS];
    for (int c = 0; c < o.cases; c++)
        for (int r = 0; r < o.repeat; r++) {
            ratio[c][r] = heap[r] / ns[c][r];
            ratio_cpu[c][r] = heap_cpu[r] / cpu[c][r];
            speedup[c][r] = ns[0][r] / ns[c][r];
        }
    for (int c = 0; c < o.cases; c++) { /* the summaries sort: on copies */
        memcpy(copy[0], ns[c], sizeof copy[0]);
        memcpy(copy[1], cpu[c], sizeof copy[1]);
        memcpy(copy[2], heap, sizeof copy[2]);
        memcpy(copy[3], heap_cpu, sizeof copy[3]);
        memcpy(copy[4], ns[0], sizeof copy[4]);
        phold_report(&o, others, c, &result[c], copy[0], copy[1], copy[2], copy[3], copy[4], ratio[c],
                     ratio_cpu[c], speedup[c]);
        phold_engine_free(engine[c]);
    }
    return 0;
}
