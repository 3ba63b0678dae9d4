/* SPDX-License-Identifier: MIT */

/* Settings: the table of keys and what may be assigned to each. Defaults go through the same code as a
 * file's values, so a default outside of its own bounds cannot exist. settings-load.c reads files and
 * variables. */

#include "base/settings.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/parse.h"
#include "base/settings-words.h"
#include "base/strv.h"

/* Numbers of the seam (wire/wire.h, which this room may not include; a unit test compares). */
#define SEAM_MEMORY_BYTES_MIN (32 * MIB)
#define SEAM_TASKS_MIN 8

#define SEC USEC_PER_SEC
#define GIB (MIB * 1024)
#define LIST_ENTRIES_MAX 64
#define LONG_LIST_ENTRIES_MAX 1000 /* of names of packages */

typedef struct Key {
        const char *section, *name;
        Kind kind;
        size_t offset;
        uint64_t min, max;
        const char *default_value;
} Key;

#define K(section, name, kind, member, ...) { section, name, kind, offsetof(Settings, member), __VA_ARGS__ }

static const Key keys[] = {
        K("Server", "AllowGroups", KIND_NAMES, allow_groups, 0, 0, "mcp-exec"),
        K("Server", "AllowUsers", KIND_NAMES, allow_users, 0, 0, ""),
        K("Server", "AllowedHosts", KIND_HOSTS, allowed_hosts, 0, 0, ""),
        /* It takes about as long to start again. */
        K("Server", "ExitIdleSec", KIND_TIME_OR_ZERO, exit_idle_usec, SEC, 7 * 86400 * SEC, "60s"),
        /* Each costs a descriptor and a buffer. */
        K("Server", "MaxConnections", KIND_COUNT, max_connections, 1, 4096, "256"),
        K("Server", "MaxConnectionsPerAddress", KIND_COUNT, max_connections_per_address, 0, 4096, "64"),
        K("Server", "Endpoints", KIND_ENDPOINTS, endpoints, 0, 0, "sse healthz readyz metrics"),

        K("Exec", "MaxParallel", KIND_COUNT, max_parallel, 0, SETTINGS_PARALLEL_MAX, "0"),
        K("Exec", "QueueMax", KIND_COUNT, queue_max, 0, 65536, "256"),
        K("Exec", "QueueMaxPerUser", KIND_COUNT, queue_max_per_user, 0, 65536, "64"),
        /* What they hold is their code and input: as much as MaxCodeBytes= and MaxStdinBytes= each. */
        K("Exec", "QueueMemoryMax", KIND_BYTES, queue_memory_max_bytes, MIB, 16 * GIB, "128M"),
        /* An idle interpreter each. */
        K("Exec", "PoolSize", KIND_COUNT, pool_size, 0, SETTINGS_POOL_MAX, "1"),
        /* Shorter, a pool only burns CPU; longer, RuntimeMaxSec stops being a backstop. */
        K("Exec", "PoolIdleSec", KIND_TIME, pool_idle_usec, 10 * SEC, 3600 * SEC, "10min"),
        /* The tool's argument is whole seconds from 1; with a pool's idle life below the seam's day. */
        K("Exec", "DefaultTimeoutSec", KIND_TIME, default_timeout_usec, SEC, 20 * 3600 * SEC, "30s"),
        K("Exec", "MaxTimeoutSec", KIND_TIME, max_timeout_usec, SEC, 20 * 3600 * SEC, "300s"),
        /* Most clients give up after 60 s, and giving up ends the run. */
        K("Exec", "SyncLimitSec", KIND_TIME_OR_ZERO, sync_limit_usec, SEC / 10, 20 * 3600 * SEC, "50s"),
        K("Exec", "ResultKeepSec", KIND_TIME, result_keep_usec, SEC, 24 * 3600 * SEC, "10min"),
        /* Results over a quarter of it lose their middle. */
        K("Exec", "ResultMemoryMax", KIND_BYTES, result_memory_max_bytes, 64 * KIB, 16 * GIB, "64M"),
        /* A request is held in memory as a whole, several times while it is parsed. */
        K("Exec", "MaxCodeBytes", KIND_BYTES, max_code_bytes, KIB, 64 * MIB, "1M"),
        K("Exec", "MaxStdinBytes", KIND_BYTES, max_stdin_bytes, 0, 64 * MIB, "1M"),
        /* Two streams a run, held until the reply is made; the predecessor took any positive number. */
        K("Exec", "MaxOutputBytes", KIND_BYTES, max_output_bytes, 1, 256 * MIB, "1M"),
        /* Two streams, each in both forms of the result, below the 1 MB that clients refuse. */
        K("Exec", "MaxReplyChars", KIND_COUNT64, max_reply_chars, 100, 240000, "40000"),
        /* EXEC_FILES_MAX, of a room that this one may not include. */
        K("Exec", "MaxFiles", KIND_COUNT, max_files, 0, 256, "32"),
        K("Exec", "MaxFileBytes", KIND_BYTES, max_file_bytes, 0, 16 * MIB, "512K"),
        /* Held for each run until its answer is made. */
        K("Exec", "MaxFilesBytes", KIND_BYTES, max_files_bytes, 0, 256 * MIB, "4M"),
        K("Exec", "MaxFilesDepth", KIND_COUNT, max_files_depth, 0, 64, "8"),
        K("Exec", "RunHints", KIND_HINTS, run_hints, 0, 0, "read-only closed-world"),

        K("Sandbox", "Python", KIND_PROGRAM, python, 0, 0, "python3"),
        K("Sandbox", "MemoryMax", KIND_BYTES, memory_max_bytes, SEAM_MEMORY_BYTES_MIN, 1ULL << 44, "512M"),
        /* The runner and one thread pool need a few; the kernel's pid_max is 2^22. */
        K("Sandbox", "TasksMax", KIND_COUNT64, tasks_max, SEAM_TASKS_MIN, 1 << 22, "128"),
        /* Below 5 % an interpreter takes longer to start than its READY is waited for. */
        K("Sandbox", "CPUQuota", KIND_PERCENT, cpu_quota_percent, 5, 100 * 1024, "100%"),
        /* The pages count towards MemoryMax=. Small enough to leave no room for main.py helps nobody. */
        K("Sandbox", "TmpfsSize", KIND_BYTES, tmpfs_bytes, MIB, 1024 * GIB, "64M"),
        /* About 1 KiB of kernel memory each, charged to the run. */
        K("Sandbox", "TmpfsInodes", KIND_COUNT64, tmpfs_inodes, 256, 1 << 24, "16384"),
        K("Sandbox", "BindReadOnlyPaths", KIND_PATHS, bind_read_only_paths, 0, 0, ""),
        K("Sandbox", "RequireControllers", KIND_CONTROLLERS, require_controllers, 0, 0, "memory pids cpu"),

        K("Packages", "UvPath", KIND_PROGRAM, packages.uv_path, 0, 0, "uv"),
        K("Packages", "ExtraPythons", KIND_PROGRAMS, packages.extra_pythons, 0, 0, ""),
        K("Packages", "DefaultRequirements", KIND_FILE, packages.default_requirements, 0, 0, ""),
        K("Packages", "Offline", KIND_BOOL, packages.is_offline, 0, 0, "no"),
        K("Packages", "IndexUrl", KIND_URL, packages.index_url, 0, 0, ""),
        K("Packages", "ExtraIndexUrls", KIND_URLS, packages.extra_index_urls, 0, 0, ""),
        K("Packages", "IndexCredentials", KIND_FILE, packages.index_credentials, 0, 0, ""),
        K("Packages", "Proxy", KIND_PROXY, packages.proxy, 0, 0, ""),
        K("Packages", "NoProxy", KIND_DESTINATIONS, packages.no_proxy, 0, 0, ""),
        K("Packages", "InternalHosts", KIND_DESTINATIONS, packages.internal_hosts, 0, 0, ""),
        K("Packages", "CaBundle", KIND_FILE, packages.ca_bundle, 0, 0, ""),
        K("Packages", "PythonMirror", KIND_URL, packages.python_mirror, 0, 0, ""),
        K("Packages", "ExcludeNewer", KIND_MOMENT, packages.exclude_newer, 0, 0, ""),
        K("Packages", "AllowPackages", KIND_DISTRIBUTIONS, packages.allow_packages, 0, 0, ""),
        K("Packages", "DenyPackages", KIND_DISTRIBUTIONS, packages.deny_packages, 0, 0, ""),
        K("Packages", "AllowDirectUrls", KIND_BOOL, packages.allow_direct_urls, 0, 0, "no"),
        K("Packages", "AllowVcs", KIND_BOOL, packages.allow_vcs, 0, 0, "no"),
        K("Packages", "AllowSourceBuilds", KIND_BOOL, packages.allow_source_builds, 0, 0, "no"),
        K("Packages", "AllowToolUv", KIND_BOOL, packages.allow_tool_uv, 0, 0, "no"),
        K("Packages", "AllowPythonDownloads", KIND_BOOL, packages.allow_python_downloads, 0, 0, "no"),
        /* Each is a directory with tens of thousands of files. */
        K("Packages", "SetsMax", KIND_COUNT, packages.sets_max, 1, 4096, "64"),
        K("Packages", "SetsMaxBytes", KIND_BYTES, packages.sets_max_bytes, 64 * MIB, 1024 * 1024 * GIB,
          "16G"),
        K("Packages", "SetsMaxAgeSec", KIND_TIME_OR_ZERO, packages.sets_max_age_usec, 60 * SEC,
          3650 * 86400 * SEC, "720h"),
        /* Each is a job on the connection to the launcher. */
        K("Packages", "PrepareParallel", KIND_COUNT, packages.prepare_parallel, 1, 16, "2"),
        K("Packages", "PrepareTimeoutSec", KIND_TIME, packages.prepare_timeout_usec, 10 * SEC,
          4 * 3600 * SEC, "10min"),
        K("Packages", "PrepareMemoryMax", KIND_BYTES, packages.prepare_memory_max_bytes, 256 * MIB,
          16 * 1024 * GIB, "2G"),
        /* uv needs a thread for each CPU and about thirty more (at most 32 in all: it aborts). */
        K("Packages", "PrepareTasksMax", KIND_COUNT64, packages.prepare_tasks_max, 64, 1 << 22, "512"),
        /* What is downloaded for one set, and the set. */
        K("Packages", "PrepareBytesMax", KIND_BYTES, packages.prepare_max_bytes, MIB, 1024 * GIB, "4G"),
};

static_assert(ELEMENTSOF(keys) <= ELEMENTSOF(((Settings*) NULL)->assigned),
              "Settings.assigned has room for each");

/* Lists whose words are known beforehand: kept as a mask. */
typedef struct Word {
        const char *name;
        unsigned bit;
        const char *all; /* of the last entry, which has no name */
} Word;

static const Word controllers[] = {
        { "memory", CONTROLLER_MEMORY }, { "pids", CONTROLLER_PIDS }, { "cpu", CONTROLLER_CPU },
        { .all = "memory, pids, cpu" },
};
static const Word endpoints[] = {
        { "sse", ENDPOINT_SSE }, { "healthz", ENDPOINT_HEALTHZ }, { "readyz", ENDPOINT_READYZ },
        { "metrics", ENDPOINT_METRICS }, { .all = "sse, healthz, readyz, metrics" },
};
static const Word hints[] = {
        { "read-only", HINT_READ_ONLY }, { "closed-world", HINT_CLOSED_WORLD },
        { .all = "read-only, closed-world" },
};

static const Word *const words_of[_KIND_MAX] = {
        [KIND_CONTROLLERS] = controllers, [KIND_ENDPOINTS] = endpoints, [KIND_HINTS] = hints,
};

static void* member(const Key *k, const Settings *s) {
        return (char*) (uintptr_t) s + k->offset;
}

static bool is_time(Kind kind) {
        return kind == KIND_TIME || kind == KIND_TIME_OR_ZERO;
}

/* Kept as unsigned, not as uint64_t. */
static bool is_small(Kind kind) {
        return kind == KIND_COUNT || kind == KIND_PERCENT;
}

static bool is_strv(Kind kind) {
        return kind == KIND_NAMES || kind == KIND_HOSTS || kind == KIND_PATHS || kind == KIND_PROGRAMS ||
               kind == KIND_URLS || kind == KIND_DESTINATIONS || kind == KIND_DISTRIBUTIONS;
}

/* One string. */
static bool is_string(Kind kind) {
        return kind == KIND_PROGRAM || kind == KIND_FILE || kind == KIND_URL || kind == KIND_PROXY ||
               kind == KIND_MOMENT;
}

/* Numbers as a file would write them: the largest unit that leaves no rest. */
static void format_number(Kind kind, uint64_t value, char *ret, size_t ret_bytes) {
        static const char suffixes[] = "KMGT";
        static const struct {
                const char *suffix;
                uint64_t usec;
        } units[] = {
                { "h", 3600 * SEC }, { "min", 60 * SEC }, { "s", SEC }, { "ms", USEC_PER_MSEC }, { "us", 1 }
        };
        size_t i;

        if (kind == KIND_BYTES) {
                for (i = 0; value >= KIB && value % KIB == 0 && i < 4; i++)
                        value /= KIB;
                (void) snprintf(ret, ret_bytes, "%" PRIu64 "%.*s", value, i > 0,
                                i > 0 ? suffixes + i - 1 : "");
        } else if (is_time(kind) && value > 0) {
                for (i = 0; value % units[i].usec != 0; i++)
                        ;
                (void) snprintf(ret, ret_bytes, "%" PRIu64 "%s", value / units[i].usec, units[i].suffix);
        } else
                (void) snprintf(ret, ret_bytes, "%" PRIu64 "%s", value, kind == KIND_PERCENT ? "%" : "");
}

static int set_list(const Key *k, Settings *s, const char *value, char **reterr_reason) {
        char ***list = member(k, s);
        _cleanup_strv_ char **words = NULL, **new = NULL;
        bool is_first = !s->assigned[k - keys];
        size_t entries_max = k->kind == KIND_DISTRIBUTIONS ? LONG_LIST_ENTRIES_MAX : LIST_ENTRIES_MAX;
        int r;

        r = strv_split(value, &words);
        if (r < 0)
                return r;
        if (words && !is_first)
                STRV_FOREACH(old, *list) {
                        r = strv_extend(&new, *old);
                        if (r < 0)
                                return r;
                }
        STRV_FOREACH(word, words) {
                r = settings_check_word(k->kind, *word, reterr_reason);
                if (r < 0)
                        return r;
                if (strv_contains(new, *word))
                        continue;
                if (strv_length(new) >= entries_max)
                        return settings_refuse(reterr_reason, "more than %zu entries", entries_max);
                r = strv_extend(&new, *word);
                if (r < 0)
                        return r;
        }
        strv_free(*list);
        *list = TAKE_PTR(new);
        return 0;
}

static int set_mask(const Word *known, unsigned *mask, const char *value, char **reterr_reason) {
        _cleanup_strv_ char **words = NULL;
        unsigned new = 0;
        int r;

        r = strv_split(value, &words);
        if (r < 0)
                return r;
        STRV_FOREACH(word, words) {
                const Word *w = known;

                while (w->name && !streq(*word, w->name))
                        w++;
                if (!w->name)
                        return settings_refuse(reterr_reason, "\"%s\" is none of %s", *word, w->all);
                new |= w->bit;
        }
        *mask = new;
        return 0;
}

static int set_number(const Key *k, Settings *s, const char *value, char **reterr_reason) {
        static const char *const shapes[] = {
                [KIND_COUNT] = "a number",
                [KIND_COUNT64] = "a number",
                [KIND_BYTES] = "a size such as 64M",
                [KIND_TIME] = "a time such as 30s or 5min",
                [KIND_TIME_OR_ZERO] = "a time such as 30s or 5min, or 0",
                [KIND_PERCENT] = "a percentage such as 100%",
        };
        char min[32], max[32];
        unsigned percent = 0;
        uint64_t number = 0;
        int r;

        if (k->kind == KIND_PERCENT) {
                r = parse_percent(value, &percent);
                number = percent;
        } else if (k->kind == KIND_BYTES)
                r = parse_bytes(value, &number);
        else if (is_time(k->kind))
                r = parse_usec(value, &number);
        else
                r = parse_uint64(value, &number);
        if (r == -EINVAL)
                return settings_refuse(reterr_reason, "\"%s\" is not %s", value, shapes[k->kind]);

        if (r < 0 ||
            ((number < k->min || number > k->max) && !(k->kind == KIND_TIME_OR_ZERO && number == 0))) {
                format_number(k->kind, k->min, min, sizeof(min));
                format_number(k->kind, k->max, max, sizeof(max));
                return settings_refuse(reterr_reason, "%s is out of range, %s to %s", value, min, max);
        }
        if (is_small(k->kind))
                *(unsigned*) member(k, s) = (unsigned) number;
        else
                *(uint64_t*) member(k, s) = number;
        return 0;
}

static int set_key(const Key *k, Settings *s, const char *value, char **reterr_reason) {
        int r;

        if (is_strv(k->kind))
                return set_list(k, s, value, reterr_reason);
        if (words_of[k->kind])
                return set_mask(words_of[k->kind], member(k, s), value, reterr_reason);
        if (k->kind == KIND_BOOL) {
                r = parse_bool(value, member(k, s));
                return r < 0 ? settings_refuse(reterr_reason, "\"%s\" is neither yes nor no", value) : 0;
        }
        if (is_string(k->kind)) {
                r = settings_check_word(k->kind, value, reterr_reason);
                return r < 0 ? r : str_copy(member(k, s), value);
        }
        return set_number(k, s, value, reterr_reason);
}

static const Key* find_key(const char *section, const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if (streq(keys[i].section, section) && streq(keys[i].name, name))
                        return &keys[i];
        return NULL;
}

static bool is_assigned(const Settings *s, const char *section, const char *name) {
        return s->assigned[find_key(section, name) - keys];
}

static int refuse_unknown(const char *section, const char *name, char **reterr_reason) {
        bool has_section = false;

        for (size_t i = 0; i < ELEMENTSOF(keys); i++) {
                if (streq(keys[i].name, name))
                        return settings_refuse(reterr_reason, "%s= belongs to section [%s]", name,
                                               keys[i].section);
                has_section = has_section || streq(keys[i].section, section);
        }
        if (!has_section)
                return settings_refuse(reterr_reason, "unknown section [%s]", section);
        return settings_refuse(reterr_reason, "unknown key %s= in section [%s]", name, section);
}

int settings_set(Settings *s, const char *section, const char *key, const char *value,
                 char **reterr_reason) {
        _cleanup_free_ char *reason = NULL;
        const Key *k;
        int r;

        assert(s);
        assert(section);
        assert(key);
        assert(value);
        assert(reterr_reason);

        k = find_key(section, key);
        if (!k)
                return refuse_unknown(section, key, reterr_reason);
        if (!*value && !is_strv(k->kind) && !words_of[k->kind]) {
                r = set_key(k, s, k->default_value, &reason);
                s->assigned[k - keys] = false;
        } else {
                r = set_key(k, s, value, &reason);
                if (r >= 0)
                        s->assigned[k - keys] = true;
        }
        if (r == -EINVAL)
                return settings_refuse(reterr_reason, "%s=: %s", key,
                                       reason ? reason : "not a valid value");
        if (r < 0)
                return r;

        /* Who only lowers the maximum means no contradiction to a default that nobody wrote. */
        if (!is_assigned(s, "Exec", "DefaultTimeoutSec") && s->default_timeout_usec > s->max_timeout_usec)
                s->default_timeout_usec = s->max_timeout_usec;
        return 0;
}

int settings_new_default(Settings **ret) {
        _cleanup_(settings_freep) Settings *s = NULL;
        int r;

        assert(ret);

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->transport = TRANSPORT_STDIO;
        for (size_t i = 0; i < ELEMENTSOF(keys); i++) {
                _cleanup_free_ char *reason = NULL;

                r = set_key(&keys[i], s, keys[i].default_value, &reason);
                assert(r != -EINVAL);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(s);
        return 0;
}

Settings* settings_free(Settings *s) {
        if (!s)
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if (is_string(keys[i].kind))
                        free(*(char**) member(&keys[i], s));
                else if (is_strv(keys[i].kind))
                        strv_free(*(char***) member(&keys[i], s));
        free(s->listen_address);
        free(s->python_version);
        if (s->auth_token)
                explicit_bzero(s->auth_token, strlen(s->auth_token));
        free(s->auth_token);
        free(s);
        return NULL;
}

static int format_key(const Key *k, const Settings *s, Buffer *b) {
        const char *separator = "";
        char number[32];
        int r = 0;

        if (is_string(k->kind))
                return buffer_append_str(b, *(char**) member(k, s));
        if (k->kind == KIND_BOOL)
                return buffer_append_str(b, *(bool*) member(k, s) ? "yes" : "no");
        if (is_strv(k->kind)) {
                STRV_FOREACH(word, *(char***) member(k, s)) {
                        r = buffer_printf(b, "%s%s", separator, *word);
                        if (r < 0)
                                return r;
                        separator = " ";
                }
                return buffer_append_str(b, "");
        }
        if (words_of[k->kind]) {
                for (const Word *w = words_of[k->kind]; w->name; w++)
                        if (*(unsigned*) member(k, s) & w->bit) {
                                r = buffer_printf(b, "%s%s", separator, w->name);
                                if (r < 0)
                                        return r;
                                separator = " ";
                        }
                return buffer_append_str(b, "");
        }
        format_number(k->kind, is_small(k->kind) ? *(unsigned*) member(k, s) : *(uint64_t*) member(k, s),
                      number, sizeof(number));
        return buffer_append_str(b, number);
}

int settings_foreach(const Settings *s, int (*visit)(const char *section, const char *key, const char *value,
                                                     void *userdata), void *userdata) {
        int r;

        assert(s);
        assert(visit);

        for (size_t i = 0; i < ELEMENTSOF(keys); i++) {
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

                r = format_key(&keys[i], s, &b);
                if (r < 0)
                        return r;
                r = visit(keys[i].section, keys[i].name, b.data, userdata);
                if (r != 0)
                        return r;
        }
        return 0;
}
