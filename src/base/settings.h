/* SPDX-License-Identifier: MIT */
#pragma once

/* Settings: every configuration key of mcp-exec.conf, read by the daemon and by the launcher alike. One
 * table (settings.c) holds name, section, unit, default and bounds of each; a lint test compares it with the
 * manual. Order: built-in default, /usr/lib, /etc (for a user's own processes also ~/.config/mcp-exec),
 * drop-ins, MCP_EXEC_* variables, command line. Const after loading. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/settings-packages.h"

typedef enum Transport {
        TRANSPORT_STDIO,
        TRANSPORT_HTTP,
        TRANSPORT_SSE,
        _TRANSPORT_MAX,
        _TRANSPORT_INVALID = -EINVAL,
} Transport;

typedef enum Controller {
        CONTROLLER_MEMORY = 1 << 0,
        CONTROLLER_PIDS = 1 << 1,
        CONTROLLER_CPU = 1 << 2,
        CONTROLLERS_ALL = (1 << 3) - 1,
} Controller;

/* What HTTP listeners offer beside /mcp. */
typedef enum Endpoint {
        ENDPOINT_SSE = 1 << 0, /* /sse and /messages, the transport of 2024-11-05 */
        ENDPOINT_HEALTHZ = 1 << 1,
        ENDPOINT_READYZ = 1 << 2,
        ENDPOINT_METRICS = 1 << 3,
} Endpoint;

/* What clients are told of tools that run code, so that they need not ask their user each time. */
typedef enum Hint {
        HINT_READ_ONLY = 1 << 0,    /* it changes nothing outside of itself */
        HINT_CLOSED_WORLD = 1 << 1, /* it talks to nobody */
} Hint;

#define SETTINGS_PARALLEL_MAX 168 /* all units of a server are jobs on one connection to the launcher */
#define SETTINGS_POOL_MAX 16

typedef struct Settings {
        /* [Server] */
        char **allow_groups, **allow_users; /* AllowGroups=, AllowUsers=: of the Unix socket, beside root */
        char **allowed_hosts;         /* AllowedHosts=: Host and Origin names beyond loopback's */
        uint64_t exit_idle_usec;      /* ExitIdleSec=, 0 = never */
        unsigned max_connections;     /* MaxConnections= */
        unsigned max_connections_per_address; /* MaxConnectionsPerAddress=, 0 = as many as MaxConnections= */
        unsigned endpoints;           /* Endpoints=, mask of Endpoint */

        /* [Exec] */
        unsigned max_parallel;        /* MaxParallel=, 0 = number of CPUs */
        unsigned queue_max;           /* QueueMax=: waiting runs, all principals */
        unsigned queue_max_per_user;  /* QueueMaxPerUser= */
        uint64_t queue_memory_max_bytes; /* QueueMemoryMax=: code and input of waiting runs */
        unsigned pool_size;           /* PoolSize=: warm units kept ready */
        uint64_t pool_idle_usec;      /* PoolIdleSec=: a warm unit's life while it waits */
        uint64_t default_timeout_usec, max_timeout_usec; /* DefaultTimeoutSec=, MaxTimeoutSec= */
        uint64_t sync_limit_usec;     /* SyncLimitSec=: calls without progress end then; 0 = never */
        uint64_t result_keep_usec;    /* ResultKeepSec=: for get_run, after the end */
        uint64_t result_memory_max_bytes; /* ResultMemoryMax=: of all results that are kept */
        uint64_t max_code_bytes, max_stdin_bytes; /* MaxCodeBytes=, MaxStdinBytes= */
        uint64_t max_output_bytes;    /* MaxOutputBytes=: captured, per stream */
        uint64_t max_reply_chars;     /* MaxReplyChars=: shown in one reply, per stream */
        unsigned max_files;           /* MaxFiles=: listed of those a program left; 0 = none are collected */
        uint64_t max_file_bytes, max_files_bytes; /* MaxFileBytes=, MaxFilesBytes=: of one, of all */
        unsigned max_files_depth;     /* MaxFilesDepth=: levels of directories below the working directory */
        unsigned run_hints;           /* RunHints=, mask of Hint */

        /* [Sandbox] — what the launcher obeys; the daemon only tells clients about it */
        char *python;                 /* Python= */
        uint64_t memory_max_bytes, tasks_max; /* MemoryMax=, TasksMax= */
        unsigned cpu_quota_percent;   /* CPUQuota= */
        uint64_t tmpfs_bytes, tmpfs_inodes; /* TmpfsSize=, TmpfsInodes=: of /tmp, and of /dev/shm */
        char **bind_read_only_paths;  /* BindReadOnlyPaths=: more host paths a run may read */
        unsigned require_controllers; /* RequireControllers=, mask of Controller */

        PackageSettings packages;     /* [Packages] */

        /* Not in files: variables and command line only */
        Transport transport;          /* MCP_EXEC_TRANSPORT */
        char *listen_address;         /* MCP_EXEC_ADDR: HOST:PORT, [V6]:PORT or :PORT; default :8080 */
        char *python_version;         /* --python-version: of every program; NULL: the interpreter's */
        char *auth_token;             /* MCP_EXEC_AUTH_TOKEN, credential "auth-token"; wiped on free */
        bool has_output_limit_override; /* MCP_EXEC_MAX_OUTPUT_BYTES was set: also bounds the reply */
        bool assigned[96]; /* private: for each key of the table, whether it no longer is a default */
} Settings;

/* Defaults, then files, then variables. is_user: also ~/.config (XDG_CONFIG_HOME when absolute).
 * -EBADMSG with *reterr_message naming file and line or variable; other -errno without message. */
int settings_load(bool is_user, Settings **ret, char **reterr_message);
/* The same with other directories than the built-in ones (NULL-terminated, the first has precedence). */
int settings_load_from(const char *const dirs[], Settings **ret, char **reterr_message);

/* Checks what holds between keys (default ≤ maximum …). -EBADMSG with message. settings_load() calls it;
 * call again after command-line changes. */
int settings_verify(const Settings *s, char **reterr_message);

/* One assignment as a file would make it; for command line and tests. A list's first assignment replaces the
 * built-in default, further ones append, an empty one clears; RequireControllers= and Endpoints= always
 * replace. Any other key's empty assignment restores the default. -EINVAL with reason, or -ENOMEM. */
int settings_set(Settings *s, const char *section, const char *key, const char *value, char **reterr_reason);

int settings_new_default(Settings **ret);
Settings* settings_free(Settings *s);
DEFINE_CLEANUP(Settings*, settings_free);

/* Calls visit for each key of the files in the table's order; value is newly formatted text (for `mcp-exec
 * check` and the lint test). */
int settings_foreach(const Settings *s, int (*visit)(const char *section, const char *key, const char *value,
                                                     void *userdata), void *userdata);

unsigned settings_parallel(const Settings *s); /* max_parallel with 0 resolved to the usable CPUs */
const char* transport_to_string(Transport t);
