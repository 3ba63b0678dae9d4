/* SPDX-License-Identifier: MIT */
#pragma once

/* A launcher for tests: speaks the seam, and plays systemd by forking. Each START becomes a process group
 * with a runner of a few lines, which runs the code it gets by an interpreter such as sh. What happens to
 * the n-th unit is scripted.
 *
 * Like systemd 257 it holds on to its copies of control socket and pipes after a unit is dead: no end of
 * file comes. */

#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

typedef enum FakeBehaviour {
        FAKE_RUN,                  /* as it should be */
        FAKE_REFUSE,               /* REFUSED */
        FAKE_START_FAILS,          /* FINISHED with start_failed and exit status 226, no process */
        FAKE_NEVER_READY,
        FAKE_EXIT_BEFORE_READY,    /* exit status 7, without a word */
        FAKE_CHECK_FAILS,          /* MXFAILED 17, exit status 117 */
        FAKE_CHECK_FAILS_SILENTLY, /* exit status 117 only */
        FAKE_GARBAGE,              /* eight other bytes instead of READY */
        FAKE_READY_WITHOUT_FD,
        FAKE_READY_WITH_FILE,      /* the fd is no directory */
        FAKE_READY_IN_PIECES,      /* two sends, then as it should be */
        FAKE_NEVER_READS,          /* READY, then takes no code */
        FAKE_READS_LATE,           /* the same, but all is read when it is stopped */
        FAKE_DIES_READY,           /* READY, then exits at once */
        FAKE_DROPS_AT_START,       /* closes the connection when START comes */
        FAKE_DROPS_RUNNING,        /* closes the connection 50 ms after READY */
        FAKE_OOM,                  /* as it should be, but the Result is oom-kill */
        FAKE_GONE,                 /* … gone, nothing known */
        FAKE_RUNTIME_MAX,          /* … timeout */
        FAKE_ACCOUNTS_NOTHING,     /* … without CPU time and memory peak */
        FAKE_LATE_FINISHED,        /* FINISHED 700 ms after the death */
        FAKE_NEVER_FINISHED,
        FAKE_TWICE_FINISHED,
        FAKE_NEVER_STARTS,         /* no STARTED, and nothing else */
        FAKE_STARTED_NEVER,        /* no STARTED, the rest as it should be */
        FAKE_GARBAGE_PACKET,       /* a packet that is none, at START */
} FakeBehaviour;

#define FAKE_SCRIPT_MAX 32

/* Fill before fake_launcher_new(). */
typedef struct FakeScript {
        FakeBehaviour behaviours[FAKE_SCRIPT_MAX]; /* by number of START over all connections */
        unsigned n_behaviours;                     /* beyond them FAKE_RUN */
        bool is_silent;                            /* never says HELLO */
        bool closes_at_once;                       /* instead of HELLO */
        bool refuses;                              /* HELLO with verdict REFUSED */
        bool is_user;                              /* a user's manager */
        bool drops_after_retire;                   /* a set became a leaf, and nobody is told */
        uint64_t hello_delay_usec;
        const char *interpreter;                   /* default /bin/sh */
        const char *extra_interpreters[WIRE_INTERPRETERS_MAX - 1];
        const char *python;         /* runs the programs of preparation; default /usr/bin/python3 */
        const char *sets_directory; /* NULL: sets of packages are not possible here */
        const char *uv;
        const char *sets_reason;    /* why none are prepared, although all else is there */
        const char *late_uv;        /* found when the daemon says LOOK */
        const char *credentials;    /* $CREDENTIALS_DIRECTORY of FETCH */
        char directory[64];                        /* where units work; fake_launcher_new() makes one */
} FakeScript;

/* What it saw, live. */
typedef struct FakeReport {
        unsigned n_connections, n_starts, n_stops, n_assigns, n_looks, n_alive, n_violations;
        unsigned n_prepared; /* STARTs of FETCH and INSTALL */
        WireLimits limits, assigned; /* of the last START, of the last ASSIGN */
} FakeReport;

typedef struct FakeLauncher FakeLauncher;

FakeLauncher* fake_launcher_new(const FakeScript *script);
FakeLauncher* fake_launcher_free(FakeLauncher *f); /* kills all of it */
const FakeReport* fake_launcher_report(const FakeLauncher *f);

/* Whether all of its processes have ended. */
bool fake_launcher_is_gone(FakeLauncher *f);

/* A new connection, each served by a process of its own. The signature fits ExecEngineParameters.connect. */
int fake_launcher_connect(void *fake_launcher, char **reterr_message);

/* Serves one connection in this process, until it ends. */
int fake_launcher_serve(int fd, const FakeScript *script, FakeReport *report);
