/* SPDX-License-Identifier: MIT */
#pragma once

/* The answer of check_environment. */

#include <sys/utsname.h>

#include "base/buffer.h"
#include "base/settings.h"
#include "exec/exec.h"
#include "json/json.h"
#include "python/python.h"

typedef struct EnvironmentFacts {
        const Settings *settings;
        const ExecSandboxInfo *sandbox;
        PythonFacts python;
        struct utsname machine;
        char *const *packages; /* that a program which names none can import */
        char **interpreters;   /* those that the launcher has; owned */
        size_t n_sets;
} EnvironmentFacts;

/* The two forms of a tool's result. Returns 0 or -ENOMEM. */
int environment_write(const EnvironmentFacts *f, Buffer *content, Buffer *structured);

void environment_write_schema(JsonWriter *w);
