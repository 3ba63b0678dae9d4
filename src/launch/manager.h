/* SPDX-License-Identifier: MIT */
#pragma once

/* Manager: the connection to the service manager, PID 1 or a user's own. Holds all jobs and hands them the
 * signals that concern them. */

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "base/macro.h"
#include "launch/problem.h"

typedef struct Job Job;

typedef struct Manager {
        sd_event *event;
        sd_bus *bus;
        bool is_user;
        unsigned version;
        char version_text[64];
        bool has_seccomp;
        char **environment;
        Job *jobs;
        size_t n_jobs;
        sd_event_source *absence; /* runs while the manager's name has no owner */
        void (*on_lost)(void *userdata);
        void (*on_changed)(void *userdata); /* the number of jobs did */
        void *userdata;
} Manager;

/* Opens the bus that the service manager is on. On failure *reterr_problem says what is missing. */
int manager_open_bus(bool is_user, sd_bus **ret, Problem *reterr_problem);

/* Where a user's own runtime files are: $XDG_RUNTIME_DIR or /run/user/UID, and only if the directory is
 * the user's and nobody else's. -ENOENT when there is none. */
int user_runtime_directory(char **ret);

/* Asks what the manager is. Blocks; for the start, before the event loop runs. Takes a reference of bus. */
int manager_new(sd_event *event, sd_bus *bus, bool is_user, Manager **ret, Problem *reterr_problem);

/* Attaches to the event loop and subscribes to signals. Needed for jobs. */
int manager_attach(Manager *m, Problem *reterr_problem);

Manager* manager_free(Manager *m);
DEFINE_CLEANUP(Manager*, manager_free);
