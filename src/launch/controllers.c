/* SPDX-License-Identifier: MIT */

/* Controllers: which limits the kernel really enforces on a cgroup. */

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/strv.h"
#include "launch/controllers.h"

static const struct {
        Controller controller;
        const char *name;
} names[] = {
        { CONTROLLER_MEMORY, "memory" },
        { CONTROLLER_PIDS, "pids" },
        { CONTROLLER_CPU, "cpu" },
};

/* Reads n numbers from one file; "max" is none. */
static bool read_numbers(const char *directory, const char *file, uint64_t *ret, size_t n) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        _cleanup_strv_ char **words = NULL;

        if (str_printf(&path, "%s/%s", directory, file) < 0 ||
            file_read(AT_FDCWD, path, 256, &text, NULL) < 0 || strv_split(text, &words) < 0 ||
            strv_length(words) != n)
                return false;
        for (size_t i = 0; i < n; i++)
                if (parse_uint64(words[i], ret + i) < 0)
                        return false;
        return true;
}

unsigned controllers_enforced(const char *directory, const WireLimits *limits) {
        uint64_t value, cpu[2]; /* quota, period */
        unsigned found = 0;

        assert(directory && limits);

        if (read_numbers(directory, "memory.max", &value, 1) && value <= limits->memory_max_bytes)
                found |= CONTROLLER_MEMORY;
        if (read_numbers(directory, "pids.max", &value, 1) && value <= limits->tasks_max)
                found |= CONTROLLER_PIDS;
        /* The manager rounds quota and period to what the kernel takes: one percent of tolerance. */
        if (read_numbers(directory, "cpu.max", cpu, 2) && cpu[1] > 0 && cpu[0] < UINT64_MAX / USEC_PER_SEC &&
            cpu[0] * USEC_PER_SEC / cpu[1] <=
                    limits->cpu_quota_per_sec_usec + limits->cpu_quota_per_sec_usec / 100)
                found |= CONTROLLER_CPU;

        return found;
}

void controllers_to_string(unsigned controllers, char ret[static 32]) {
        size_t n = 0;

        ret[0] = '\0';
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (controllers & names[i].controller)
                        n += (size_t) snprintf(ret + n, 32 - n, "%s%s", n > 0 ? " " : "", names[i].name);
}
