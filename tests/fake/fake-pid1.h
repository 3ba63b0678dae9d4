/* SPDX-License-Identifier: MIT */
#pragma once

/* A service manager that does what a test tells it, at the other end of a socket: no bus, no systemd, no
 * root.
 *
 * The test is the manager: fake_pid1_call() gives it the next call of the launcher, and it answers with a
 * reply or an error and sends the signals it likes, in the order it likes. Everything fails the running
 * case when it does not happen within a few seconds. */

#include <systemd/sd-bus.h>

#include "base/macro.h"
#include "launch/bus.h"
#include "wire/wire.h"

typedef struct FakePid1 {
        sd_bus *bus;
        const char *version, *features; /* what it says of itself */
        const char *environment;        /* one variable of it */
        unsigned n_unref;               /* UnrefUnit calls seen */
        char unit[128];                 /* of the newest StartTransientUnit */
} FakePid1;

/* Takes fd, the manager's end of a socket pair. */
void fake_pid1_init(FakePid1 *f, int fd);
void fake_pid1_done(FakePid1 *f);

/* The next call, which must be of this member. What every launcher asks (properties of the manager,
 * Subscribe, UnrefUnit) is answered on the way. Returned for the caller to answer and to unref. */
sd_bus_message* fake_pid1_call(FakePid1 *f, const char *member);

/* As fake_pid1_call(), or NULL when no call comes within msec. */
sd_bus_message* fake_pid1_call_within(FakePid1 *f, unsigned msec);

/* Answers common questions until the launcher has subscribed. */
void fake_pid1_handshake(FakePid1 *f);

void fake_pid1_error(FakePid1 *f, sd_bus_message *call, const char *name, const char *text);
void fake_pid1_reply(FakePid1 *f, sd_bus_message *call, const char *types, ...);

/* Signals about the newest unit. job_id 0: no job is pending. */
void fake_pid1_changed(FakePid1 *f, const char *active_state, unsigned job_id);
void fake_pid1_job_removed(FakePid1 *f, const char *result);
void fake_pid1_unit_removed(FakePid1 *f);

/* Takes a StartTransientUnit, answers it, says "inactive", "activating". */
void fake_pid1_begin(FakePid1 *f);
/* The rest of a good start. */
void fake_pid1_start(FakePid1 *f);
/* The unit is dead: says so, and answers the question for its record. */
void fake_pid1_end(FakePid1 *f, const char *result, int code, int status);
void fake_pid1_record(FakePid1 *f, const char *result, int code, int status);
