/* SPDX-License-Identifier: MIT */
#pragma once

/* Job: one transient unit from StartTransientUnit to the last word about its end. */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-bus.h>

#include "launch/manager.h"
#include "launch/unit-spec.h"
#include "wire/wire.h"

#define UNIT_NAME_PREFIX "mcp-exec-run-"
#define UNIT_NAME_SUFFIX ".service"
#define UNIT_NAME_PATTERN UNIT_NAME_PREFIX "*" UNIT_NAME_SUFFIX

typedef struct JobHandlers {
        /* execve() of the unit's program happened. */
        void (*on_started)(Job *j, void *userdata);
        /* The unit is dead. The job is gone after the return. */
        void (*on_finished)(Job *j, const WireFinished *finished, void *userdata);
        /* No unit was started. unknown_property: the one that the manager does not know, or NULL. The job
         * is gone after the return. */
        void (*on_refused)(Job *j, const Problem *problem, const char *unknown_property, void *userdata);
} JobHandlers;

/* Asks for a unit under a new name of its own. fds are borrowed. No handler is called before the return. */
int job_start(Manager *m, const UnitSpec *spec, const int fds[static _WIRE_FD_MAX],
              const JobHandlers *handlers, void *userdata, Job **ret);

/* Closes fd, which it takes, when the unit is dead. */
void job_hold(Job *j, int fd);

/* How many of the manager's units have this profile. */
size_t job_count(const Manager *m, WireProfile profile);

WireProfile job_profile(const Job *j);

/* Kills the unit's whole cgroup, or cancels its start. on_finished follows. */
void job_stop(Job *j);

/* As job_stop(), but the caller hears no more of it and must forget the pointer. */
void job_abandon(Job *j);

/* New limits for a running unit. A unit that cannot be limited is killed. */
int job_assign(Job *j, const WireLimits *limits);

const char* job_unit(const Job *j);
const char* job_path(const Job *j);
void job_fill_started(const Job *j, WireStarted *ret);

/* Signals, from the manager. */
Job* job_find_unit(const Manager *m, const char *unit);
Job* job_find_path(const Manager *m, const char *path);
void job_on_start_removed(Job *j, const char *job_path, const char *result);
int job_on_properties(Job *j, sd_bus_message *m); /* positioned at the array of changed properties */
void job_query(Job *j); /* signals may have been missed: ask */
void jobs_query(Manager *m); /* the same about all of them */

Job* job_free(Job *j);
DEFINE_CLEANUP(Job*, job_free);
