/* SPDX-License-Identifier: MIT */
#pragma once

/* init: the first process of every unit. Inner header of this room; other rooms include only checks.h.
 *
 * Functions named check_ return the number of the check that failed (checks.h) or RUNNER_CHECK_OK.
 * Nothing here is ever logged: whoever started the unit learns from the number. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/macro.h"
#include "runner/checks.h"

static inline void runner_close(int *fd) {
        if (*fd >= 0)
                (void) close(*fd);
}
#define _cleanup_fd_ _cleanup_(runner_close)

typedef enum RunnerNamespace {
        RUNNER_NS_NET,
        RUNNER_NS_MNT,
        RUNNER_NS_IPC,
        RUNNER_NS_USER,
        RUNNER_NS_PID,
        _RUNNER_NS_MAX,
} RunnerNamespace;

typedef enum RunnerProfile {
        RUNNER_PROFILE_RUN,     /* and parse: a user and a network of its own */
        RUNNER_PROFILE_FETCH,   /* the host's network, the user who owns the sets */
        RUNNER_PROFILE_INSTALL, /* the same without network */
} RunnerProfile;

/* What the launcher knows about the world outside, to compare with what is seen inside. */
typedef struct RunnerFacts {
        bool is_selftest;
        bool is_user;                           /* a user's service manager: we are PID 1 of a namespace */
        uint64_t namespaces[_RUNNER_NS_MAX];    /* inode numbers of the launcher's own; 0: not told */
        uint64_t tmpfs_bytes, tmpfs_inodes;     /* the limits /tmp must have at most; 0: not told */
        const char *python;                     /* absolute path */
        RunnerProfile profile;
        const char *set;                        /* prefix of the packages that the program uses, or NULL */
} RunnerFacts;

/* Where things are. Fixed in the program; the unit tests use directories of their own. */
typedef struct RunnerPlaces {
        const char *tmp;        /* "/tmp" */
        const char *hook;       /* directory of our sitecustomize.py */
        const char *fonts;      /* prepared files of matplotlib's cache, may be absent */
        const char *stubs;      /* pip and the like, which say how to declare a package */
} RunnerPlaces;

#define RUNNER_PATH_MAX 512
#define RUNNER_ENVIRON_MAX 48
#define RUNNER_ENVIRON_BYTES 8192

typedef struct RunnerEnvironment {
        char *entries[RUNNER_ENVIRON_MAX + 1];
        char text[RUNNER_ENVIRON_BYTES];
        size_t n_entries, n_bytes;
} RunnerEnvironment;

/* args.c: strict; an unknown word, a missing fact or a trailing byte is RUNNER_CHECK_ARGUMENTS. */
int facts_parse(int argc, char *const argv[], RunnerFacts *ret);
/* How many of the namespaces, in their order, are this unit's own. FETCH has no network's. */
size_t facts_n_namespaces(const RunnerFacts *facts);

/* checks.c: what is cheap enough for each run (a few reads of /proc) ... */
int check_quick(const RunnerFacts *facts);
/* ... and everything, for the self-test. Ends in attempts to break out, so nothing is to be run after a
 * failure. */
int check_all(const RunnerFacts *facts);

/* call-filter.c: from here on this process and its children get no huge page, and neither notices nor leases
 * by fcntl(). Returns 0 or -errno. */
int call_filter_install(void);

/* The parts that judge text, apart from where the text comes from. */
int check_status_text(const char *proc_status);
bool is_loopback_only(const char *proc_net_dev);
bool is_uid_of_profile(const RunnerFacts *facts, uid_t uid);
bool is_limited_tmpfs(const char *proc_mountinfo, const char *mount_point);

/* world.c: makes work/, home/ and what belongs into it below tmp. Returns 0 or -errno. */
int world_prepare(const RunnerPlaces *places);
/* Builds the program's environment: constants, the thread counts and, for FETCH, the directory of its
 * credentials out of the given one. Returns 0 or -errno. */
int world_environment(const RunnerPlaces *places, const RunnerFacts *facts, char *const inherited[],
                      RunnerEnvironment *ret);
/* Leaves the process in a working directory that is deleted, so that getcwd() fails. Returns 0 or -errno. */
int world_enter_nowhere(const RunnerPlaces *places);

/* receive.c: says READY, and puts the daemon's message in place: work/main.py, files, stdin on fd 0, which
 * closes the control socket. Returns -1, or the exit status of a run that is over. */
int receive_program(const RunnerPlaces *places);

/* program.c: becomes "python main.py". Returns only on failure, with -errno. */
int program_exec(const RunnerFacts *facts, RunnerEnvironment *environment);
/* The same; with a set after receiving the program. Returns our exit status where it came to nothing. */
int program_become(const RunnerPlaces *places, const RunnerFacts *facts, RunnerEnvironment *environment);
/* Forks the program, watches it as PID 1 does, tells its end on the control socket. Returns our exit
 * status. */
int program_supervise(const RunnerPlaces *places, const RunnerFacts *facts,
                      RunnerEnvironment *environment, int control_fd);

/* selftest.c: plays the daemon for one small program. Returns a check number. */
int selftest_interpreter(const RunnerFacts *facts, RunnerEnvironment *environment);
/* Waits for the end of the stream. */
void selftest_wait(int control_fd);

/* runner-main.c: all of it; main() adds the real places. check is check_quick/check_all but for tests. */
int runner_main(int argc, char *const argv[], char *const inherited[], const RunnerPlaces *places,
                int (*check)(const RunnerFacts *facts));
