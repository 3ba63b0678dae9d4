/* SPDX-License-Identifier: MIT */
#pragma once

/* The real launcher in a process of its own, between a service manager and a daemon that are both the
 * test. */

#include <sys/types.h>

#include "fake-pid1.h"
#include "launch/server.h"
#include "wire/wire.h"

typedef struct LauncherRig {
        FakePid1 pid1;
        int seam;          /* the daemon's end */
        pid_t launcher;
        char runtime[64];  /* a directory for the verdict; XDG_RUNTIME_DIR of the launcher */
        char cgroup[128];  /* a directory with a unit's limits in it */
        char sets[128];    /* the directory of the sets */
} LauncherRig;

/* Starts everything; the self-test has not begun. */
void launcher_rig_setup(LauncherRig *rig);
/* The same up to a good verdict. Returns after HELLO. */
void launcher_rig_ready(LauncherRig *rig);
/* Plays a self-test that ends with this exit status. has_limits: the unit's cgroup has its limits. */
void launcher_rig_selftest(LauncherRig *rig, int status, bool has_limits);
/* Ends it and returns its exit status, -1 when it did not end well within a few seconds. */
int launcher_rig_teardown(LauncherRig *rig);
/* How the launcher ends by itself. */
int launcher_rig_wait(LauncherRig *rig);
/* A new launcher with the same runtime directory. */
void launcher_rig_restart(LauncherRig *rig);

/* The daemon's side. */
void rig_send_start(LauncherRig *rig, uint64_t job);
/* environment: the digit that all of its name is made of; 0: none. */
void rig_send_start_of(LauncherRig *rig, uint64_t job, WireProfile profile, unsigned interpreter,
                       char environment);
void rig_send_set(LauncherRig *rig, uint64_t job, WireSetAction action, char environment, char to);
void rig_send_stop(LauncherRig *rig, uint64_t job);
void rig_send_assign(LauncherRig *rig, uint64_t job);
/* The next message, which must be of this type and job. */
WireMessage rig_expect(LauncherRig *rig, WireType type, uint64_t job);
bool rig_is_closed(LauncherRig *rig); /* within a few seconds */
bool rig_is_silent(LauncherRig *rig); /* for a moment */
/* Whether a StartTransientUnit names this property. */
bool rig_has_property(sd_bus_message *m, const char *wanted);
