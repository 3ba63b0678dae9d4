/* SPDX-License-Identifier: MIT */

/* init: first process of every unit, see README.md of this directory. */

#include <unistd.h>

#include "config.h"
#include "runner/runner.h"

static int check(const RunnerFacts *facts) {
        if (call_filter_install() < 0)
                return RUNNER_CHECK_HUGE_PAGES;
        return facts->is_selftest ? check_all(facts) : check_quick(facts);
}

int main(int argc, char *argv[]) {
        static const RunnerPlaces places = {
                .tmp = "/tmp",
                .hook = MCP_EXEC_LIBDIR "/runner",
                .fonts = "/var/cache/mcp-exec/matplotlib",
                .stubs = MCP_EXEC_LIBDIR "/stubs",
        };

        return runner_main(argc, argv, environ, &places, check);
}
