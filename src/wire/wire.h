/* SPDX-License-Identifier: MIT */
#pragma once

/* The seam: messages between the daemon (mcp-exec) and the launcher (mcp-exec-launcher).
 *
 * AF_UNIX SOCK_SEQPACKET, one packet one message, every message a fixed struct in native byte order (both
 * ends are one host). A message can name no path, user, unit name or unit property. Any packet that fails
 * any check closes the connection. After connect the launcher speaks first: HELLO, once its self-test has a
 * verdict. */

/* lint: allow header-length: the whole protocol is to be read, and audited, in one piece. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_VERSION 3
#define WIRE_MAGIC UINT32_C(0x4578434d) /* "MCxE" */

typedef enum WireType {
        WIRE_START = 1, /* daemon: start a unit; 3 fds: control socket, stdout and stderr pipe (far ends) */
        WIRE_ASSIGN,    /* daemon: a warm unit gets its run: set its limits now; once in its life */
        WIRE_STOP,      /* daemon: kill the unit's whole cgroup with SIGKILL */
        WIRE_SET,       /* daemon: a set of packages becomes ready, or ceases to be */
        WIRE_HELLO,     /* launcher: what is on the other side of it */
        WIRE_STARTED,   /* launcher: execve of the runner happened */
        WIRE_FINISHED,  /* launcher: the unit is dead and no job is pending; last message of this job */
        WIRE_REFUSED,   /* launcher: no unit was started; last message of this job */
        WIRE_SET_DONE,  /* launcher: the answer to SET */
        WIRE_LOOK,      /* daemon: look anew for what packages lack; another HELLO follows */
        _WIRE_TYPE_MAX,
} WireType;

enum {
        WIRE_FD_CONTROL, /* SOCK_STREAM socket, becomes fd 0 of the unit */
        WIRE_FD_STDOUT,  /* writing end of a pipe */
        WIRE_FD_STDERR,
        _WIRE_FD_MAX,
};

/* Bounds that hold whatever a configuration says; the launcher clamps to them and to its own settings. */
#define WIRE_MEMORY_BYTES_MIN (UINT64_C(32) << 20) /* before 255 it is charged for the pre-exec child too */
#define WIRE_TASKS_MIN 8
#define WIRE_RUNTIME_USEC_MIN UINT64_C(1000000)
#define WIRE_RUNTIME_USEC_MAX (UINT64_C(24) * 3600 * 1000000)
#define WIRE_JOBS_PER_CONNECTION_MAX 256
#define WIRE_INTERPRETERS_MAX 8
#define WIRE_SET_NAME_CHARS 64 /* hex digits */

/* Places inside of units. */
#define WIRE_SET_PATH "/env"                   /* the set of RUN, the leaf of FETCH and INSTALL */
#define WIRE_CREDENTIAL_NAME "index-credentials" /* in FETCH: of the file of IndexCredentials= */
#define WIRE_CA_BUNDLE_PATH "/etc/ca-bundle.pem" /* in FETCH: the file of CaBundle=, if there is any */

typedef struct WireHeader {
        uint32_t magic;
        uint16_t version;
        uint16_t type;
        uint64_t job_id; /* chosen by the daemon, never 0, unique on its connection; 0 in HELLO and LOOK */
} WireHeader;

typedef struct WireLimits {
        uint64_t runtime_max_usec;         /* RuntimeMaxUSec; of a warm unit: idle life plus longest run */
        uint64_t memory_max_bytes;
        uint64_t tasks_max;
        uint64_t cpu_quota_per_sec_usec;   /* 1000000 is one CPU */
} WireLimits;

/* What a unit is for. A set of packages is made in a directory of its own, the leaf "<64 hex>.tmp", which
 * the launcher renames when it is complete: a finished set is "<64 hex>" and never written to again. Either
 * is WIRE_SET_PATH in the unit. */
typedef enum WireProfile {
        WIRE_PROFILE_RUN,                  /* untrusted code: every wall. May have a set, read-only */
        WIRE_PROFILE_PARSE,                /* our program reads a script: the same walls, no set */
        WIRE_PROFILE_FETCH,                /* our program and uv, with network. Writes to its leaf */
        WIRE_PROFILE_INSTALL,              /* the same without network */
        _WIRE_PROFILE_MAX,
} WireProfile;

typedef struct WireStart {
        WireHeader header;
        uint32_t profile;                  /* WireProfile */
        uint32_t interpreter;              /* index into the launcher's list; 0 is Python= */
        char environment[WIRE_SET_NAME_CHARS]; /* the set of RUN, or the leaf; all zero bytes: none */
        WireLimits limits;
} WireStart;

typedef struct WireAssign {
        WireHeader header;
        WireLimits limits; /* runtime_max_usec is ignored: it cannot change on a running unit */
} WireAssign;

typedef struct WireStop {
        WireHeader header;
} WireStop;

typedef struct WireLook {
        WireHeader header;
} WireLook;

typedef enum WireSetAction {
        WIRE_SET_COMMIT, /* the leaf "<environment>.tmp" becomes the set "<to>" */
        WIRE_SET_RETIRE, /* the set "<environment>", which no run uses, becomes a leaf, for remove.py */
        WIRE_SET_DROP,   /* the leaf "<environment>.tmp", which is empty, is removed */
        _WIRE_SET_ACTION_MAX,
} WireSetAction;

typedef struct WireSet {
        WireHeader header; /* job_id: of this request alone */
        uint32_t action;                   /* WireSetAction */
        uint32_t _padding;
        char environment[WIRE_SET_NAME_CHARS];
        char to[WIRE_SET_NAME_CHARS];      /* COMMIT alone */
} WireSet;

/* error: 0, EEXIST (COMMIT: there is one of that name already, the leaf stays as it is), EBUSY (in use),
 * ENOENT, ENOTEMPTY, or another errno. */
typedef struct WireSetDone {
        WireHeader header;
        uint32_t error;
        uint32_t _padding;
        char text[256];                    /* what could not be done, one sentence; empty without an error */
} WireSetDone;

typedef enum WireVerdict {
        WIRE_VERDICT_OK,
        WIRE_VERDICT_REFUSED, /* reason and remedy say why; every START will be REFUSED with them */
        _WIRE_VERDICT_MAX,
} WireVerdict;

typedef struct WireHello {
        WireHeader header;
        uint32_t verdict;                  /* WireVerdict */
        uint8_t is_user;                   /* a user's service manager, not PID 1 */
        uint8_t has_memory_peak;           /* systemd >= 255 */
        uint8_t controllers;               /* Controller mask found under a run's own cgroup */
        uint8_t is_relaxed;                /* RequireControllers= is not the full set */
        uint32_t manager_version;          /* 252 */
        uint32_t n_interpreters;
        uint64_t memory_max_bytes;         /* the launcher's own ceilings, for the daemon to tell clients */
        uint64_t tasks_max;
        uint64_t cpu_quota_per_sec_usec;
        uint64_t runtime_max_usec;
        uint64_t tmpfs_bytes;
        char manager_version_text[64];     /* "252.39-1~deb12u1" */
        char interpreters[WIRE_INTERPRETERS_MAX][256]; /* paths; 0 is Python=; empty: cannot be used */
        char sets_directory[256];          /* of the sets, for listing; empty: there can be none */
        char sets_reason[512];             /* why sets cannot be prepared here, and what to do; else empty */
        char uv[256];                      /* uv's path in a FETCH or INSTALL unit */
        char uv_on_host[256];              /* the same file as people know it */
        char reason[512]; /* verdict REFUSED: the protection that is missing, one sentence */
        char remedy[512];                  /* what the administrator does about it, one sentence */
} WireHello;

typedef struct WireStarted {
        WireHeader header;
        uint64_t monotonic_usec;           /* ExecMainStartTimestampMonotonic */
        char unit[64];                     /* for the journal record */
        char invocation_id[33];
        char _padding[7];
} WireStarted;

/* The unit's Result property, by systemd's own words. */
typedef enum WireResult {
        WIRE_RESULT_SUCCESS,
        WIRE_RESULT_EXIT_CODE,
        WIRE_RESULT_SIGNAL,
        WIRE_RESULT_CORE_DUMP,
        WIRE_RESULT_TIMEOUT,
        WIRE_RESULT_OOM_KILL,
        WIRE_RESULT_RESOURCES,
        WIRE_RESULT_PROTOCOL,
        WIRE_RESULT_WATCHDOG,
        WIRE_RESULT_START_LIMIT_HIT,
        WIRE_RESULT_EXEC_CONDITION,
        WIRE_RESULT_OTHER,                 /* a word this version does not know */
        WIRE_RESULT_GONE,                  /* the unit vanished, its end is unknown: never a success */
        _WIRE_RESULT_MAX,
} WireResult;

#define WIRE_UNKNOWN UINT64_MAX

typedef struct WireFinished {
        WireHeader header;
        uint32_t result;                   /* WireResult */
        uint8_t start_failed;              /* JobRemoved was not "done": the runner never ran */
        uint8_t _padding[3];
        int32_t main_code;                 /* ExecMainCode: 0 unknown, 1 exited, 2 killed, 3 dumped */
        int32_t main_status;               /* ExecMainStatus: exit status or signal number */
        uint64_t start_monotonic_usec, exit_monotonic_usec; /* ExecMain…TimestampMonotonic; 0 unknown */
        uint64_t cpu_nsec;                 /* WIRE_UNKNOWN when not accounted */
        uint64_t memory_peak_bytes;        /* WIRE_UNKNOWN before 255 */
} WireFinished;

typedef struct WireRefused {
        WireHeader header;
        char reason[512];
        char remedy[512];
} WireRefused;

typedef union WireMessage {
        WireHeader header;
        WireStart start;
        WireAssign assign;
        WireStop stop;
        WireLook look;
        WireSet set;
        WireHello hello;
        WireStarted started;
        WireFinished finished;
        WireRefused refused;
        WireSetDone set_done;
} WireMessage;

/* Which end reads: messages of the other direction are violations. */
typedef enum WireRole {
        WIRE_ROLE_LAUNCHER, /* receives START, ASSIGN, STOP, SET, LOOK */
        WIRE_ROLE_DAEMON,   /* receives the rest */
} WireRole;

/* Exact size of a message of this type, 0 for an unknown type. */
size_t wire_message_size(uint16_t type);

/* Fills magic, version, type, job id of a zeroed message. */
void wire_header_init(WireMessage *m, WireType type, uint64_t job_id);

/* Table-driven check of one received packet: size, magic, version, direction, enum ranges, text terminated
 * and printable, padding zero, number of fds. Returns 0 or -EBADMSG; never reads beyond n_bytes. */
int wire_check(WireRole role, const WireMessage *m, size_t n_bytes, size_t n_fds);

/* Checks the fds of a START: an end of a socketpair, two writing ends of pipes, all of them blocking and
 * without other status flags. Returns 0 or -EBADMSG. The attack: a regular file, a directory, a listening
 * socket or a connection to a service of the host handed to PID 1 in our name. */
int wire_check_start_fds(const int fds[static _WIRE_FD_MAX]);

/* Sends one message with n_fds fds (0 or _WIRE_FD_MAX). Non-blocking: -EAGAIN when the peer does not read,
 * -EPIPE when it has gone. */
int wire_send(int fd, const WireMessage *m, const int *fds, size_t n_fds);

/* Receives and checks one packet; fds (cloexec) are the caller's on success; unused entries are -EBADF.
 * Returns 1, 0 at end of the connection, -EAGAIN, -EBADMSG for a violation (close the connection), or
 * another -errno. MSG_CTRUNC and MSG_TRUNC are violations. */
int wire_receive(int fd, WireRole role, WireMessage *ret, int ret_fds[static _WIRE_FD_MAX]);

/* Copies text into a fixed field, cut at a UTF-8 border, unprintable bytes as '?'. */
void wire_set_text(char *field, size_t field_bytes, const char *text);

/* A name of a set, from such a field: "" or 64 hex digits. */
void wire_get_set_name(const char field[static WIRE_SET_NAME_CHARS],
                       char ret[static WIRE_SET_NAME_CHARS + 1]);

const char* wire_result_to_string(WireResult r);
WireResult wire_result_from_string(const char *s); /* WIRE_RESULT_OTHER for an unknown word */
