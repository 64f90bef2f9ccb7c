/* model.h - what the relacy models share: the checker, and the engine's headers built on it.
 *
 * The headers are those of native/src, unchanged: their atomics become relacy's by SEER_RELACY.
 * Plain data that a protocol hands from thread to thread is an rl::var, on which relacy reports
 * any access that does not happen after the last write. */
#ifndef SEER_MODEL_H
#define SEER_MODEL_H

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <streambuf>

#include <relacy/relacy.hpp>

#define SEER_RELACY 1

/* Keeps the first of what relacy prints. It may not allocate: relacy checks every allocation. */
class seer_head : public std::streambuf {
public:
    seer_head() : used(0) {}
    void print() { fwrite(text, 1, used, stdout); }

protected:
    int overflow(int c)
    {
        if (used < sizeof text) text[used++] = (char)c;
        return c == EOF ? 0 : c;
    }

private:
    char text[6000];
    size_t used;
};

/* Runs a test under the random scheduler and, where asked, by bounded full search.
 *   MODEL [random RUNS | full BOUND]
 * Exit status 0: no execution failed. 1: one did, which is printed. 2: wrong arguments. */
template <typename Test>
int seer_model_main(int argc, char **argv, unsigned runs)
{
    rl::test_params params;
    seer_head kept, lost;
    std::ostream out(&kept), progress(&lost);
    params.iteration_count = runs;
    params.execution_depth_limit = 20000;
    params.output_stream = &out;
    params.progress_stream = &progress;
    if (argc == 3 && !strcmp(argv[1], "random")) {
        params.iteration_count = strtoul(argv[2], 0, 10);
    } else if (argc == 3 && !strcmp(argv[1], "full")) {
        params.search_type = rl::fair_context_bound_scheduler_type;
        params.context_bound = (unsigned)strtoul(argv[2], 0, 10);
    } else if (argc != 1) {
        fprintf(stderr, "usage: %s [random RUNS | full BOUND]\n", argv[0]);
        return 2;
    }
    bool fine = rl::simulate<Test>(params);
    if (!fine) kept.print();
    printf("\n%s: %s after %llu executions\n", fine ? "ok" : "failed",
           rl::test_result_str(params.test_result), (unsigned long long)params.stop_iteration);
    return fine ? 0 : 1;
}

#endif
