/* SPDX-License-Identifier: MIT */

/* init for the tests: the real one with directories of the test's own, and walls as the test says. The
 * program that is installed has no such switch. usage: init-at TMP HOOK CHECK init-arguments... */

#include <stdlib.h>
#include <unistd.h>

#include "base/parse.h"
#include "runner/runner.h"

static int check_result;

static int check(const RunnerFacts *facts) {
        (void) facts;
        return check_result;
}

int main(int argc, char *argv[]) {
        RunnerPlaces places = { .fonts = "/nonexistent", .stubs = "/stubs" };
        uint64_t number;

        if (argc < 4 || parse_uint64(argv[3], &number) < 0 || number > 99)
                return 99;
        places.tmp = argv[1];
        places.hook = argv[2];
        check_result = (int) number;

        return runner_main(argc - 3, argv + 3, environ, &places, check);
}
