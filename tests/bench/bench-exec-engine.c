/* SPDX-License-Identifier: MIT */

/* What the engine itself costs: the same shell command by posix_spawn() and through the engine with the fake
 * launcher, cold and warm. Prints medians; asserts nothing, since a machine under test has other work to
 * do. */

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/timeutil.h"
#include "protocol/exec-rig.h"

#define N_RUNS 100

static int compare(const void *a, const void *b) {
        uint64_t x = *(const uint64_t*) a, y = *(const uint64_t*) b;

        return x < y ? -1 : x > y;
}

static void print_median(const char *what, uint64_t *usec, size_t n) {
        qsort(usec, n, sizeof(uint64_t), compare);
        printf("%-44s %6.2f ms (best %.2f)\n", what, (double) usec[n / 2] / 1000, (double) usec[0] / 1000);
}

static void measure_bare(void) {
        uint64_t usec[N_RUNS];

        for (size_t i = 0; i < N_RUNS; i++) {
                static char sh[] = "sh", option[] = "-c", nothing[] = ":";
                char *const argv[] = { sh, option, nothing, NULL };
                uint64_t begin = now_monotonic_usec();
                pid_t pid;

                if (posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, NULL) != 0 ||
                    waitpid(pid, NULL, 0) != pid)
                        abort();
                usec[i] = now_monotonic_usec() - begin;
        }
        print_median("sh, spawned", usec, N_RUNS);
}

static bool is_warm(const void *data) {
        const Rig *rig = data;

        return rig->engine->pool.units.first && rig->engine->pool.units.first->state == UNIT_READY;
}

static void measure_engine(const char *what, const char *code, bool want_warm) {
        Rig *rig = rig_setup(NULL);
        uint64_t usec[N_RUNS];
        Run run;

        rig->settings->pool_size = want_warm;
        rig_run(rig, &run, code);
        for (size_t i = 0; i < N_RUNS; i++) {
                if (want_warm && !rig_wait(rig, is_warm, rig))
                        abort();
                rig_run(rig, &run, code);
                if (run.status != EXEC_OK)
                        abort();
                usec[i] = run.done_usec - run.submitted_usec;
        }
        print_median(what, usec, N_RUNS);
        rig_teardown(rig);
}

static void measure_throughput(unsigned n_parallel) {
        Rig *rig = rig_setup(NULL);
        Run runs[N_RUNS];
        char message[512];
        uint64_t begin;

        rig->settings->max_parallel = n_parallel;
        rig->settings->queue_max = rig->settings->queue_max_per_user = N_RUNS;
        rig_run(rig, runs, ":");
        begin = now_monotonic_usec();
        for (size_t i = 0; i < N_RUNS; i++)
                if (rig_submit_as(rig, runs + i, "local", ":", NULL, 10 * USEC_PER_SEC, message) != 0)
                        abort();
        for (size_t i = 0; i < N_RUNS; i++)
                if (!rig_wait_done(rig, runs + i))
                        abort();
        printf("%u runs, %u at a time: %.0f runs/s\n", N_RUNS, n_parallel,
               N_RUNS * 1e6 / (double) (now_monotonic_usec() - begin));
        rig_teardown(rig);
}

int main(void) {
        measure_bare();
        measure_engine("sh, engine, cold", ":", /* want_warm= */ false);
        measure_engine("sh, engine, warm", ":", /* want_warm= */ true);
        measure_engine("sh, engine, warm, 1 MB of output", "head -c 1000000 /dev/zero",
                       /* want_warm= */ true);
        measure_throughput(1);
        measure_throughput(4);
        return 0;
}
