/* SPDX-License-Identifier: MIT */

/* The profiles. RUN is untrusted code, and has everything. PARSE is a program of ours that reads untrusted
 * text, within the same walls. FETCH and INSTALL are programs of ours and uv that make a set of packages:
 * they may write to it, FETCH has the network, and both have one user, so that INSTALL may write to what
 * FETCH made. Each row was accepted by systemd 252, 255, 257 and 262; why it is there stands beside it where
 * that is not plain. Nothing here comes from a request.
 *
 * Left out on purpose, because the rest already does their work and they cost milliseconds:
 * ProtectKernel*, ProtectControlGroups, ProtectHostname, ProtectClock (no capabilities, no /sys,
 * ProcSubset=pid), IPAddressDeny (PrivateNetwork). PrivatePIDs is for users only: a program that is PID 1
 * of its namespace cannot kill itself, and a user's unit has an init for that. */

#include "config.h"
#include "launch/profile.h"
#include "wire/wire.h"

#define NUMBER_FOR(p, n, k, w, v) { .profiles = p, .name = n, .kind = k, .where = w, .number = v }
#define TEXT_FOR(p, n, k, w, t) { .profiles = p, .name = n, .kind = k, .where = w, .text = t }
#define COMPUTED_FOR(p, n, k, w, s) { .profiles = p, .name = n, .kind = k, .where = w, .source = s }
#define FIXED_NUMBER(n, k, w, v) NUMBER_FOR(FOR_ALL, n, k, w, v)
#define FIXED_TEXT(n, k, w, t) TEXT_FOR(FOR_ALL, n, k, w, t)
#define COMPUTED(n, k, w, s) COMPUTED_FOR(FOR_ALL, n, k, w, s)
#define OPTIONAL_NUMBER(n, k, w, v, since)                                                                  \
        { .profiles = FOR_ALL, .name = n, .kind = k, .where = w, .number = v, .min_version = since,         \
          .is_optional = true }

const ProfileRow profile_rows[] = {
        /* What kind of unit. Type=exec: the start job fails when the runner cannot be executed. AddRef:
         * without it the unit is gone once dead, and asking for it loads a stub that says "success". */
        TEXT_FOR(FOR_RUN, "Description", VALUE_STRING, IN_BOTH, "mcp-exec: sandbox of one Python program"),
        TEXT_FOR(FOR_PARSE, "Description", VALUE_STRING, IN_BOTH, "mcp-exec: reads what a script needs"),
        TEXT_FOR(FOR_FETCH, "Description", VALUE_STRING, IN_BOTH, "mcp-exec: fetches packages"),
        TEXT_FOR(FOR_INSTALL, "Description", VALUE_STRING, IN_BOTH, "mcp-exec: installs packages"),
        FIXED_TEXT("Type", VALUE_STRING, IN_BOTH, "exec"),
        FIXED_NUMBER("AddRef", VALUE_BOOL, IN_BOTH, true),
        FIXED_TEXT("CollectMode", VALUE_STRING, IN_BOTH, "inactive-or-failed"),
        FIXED_TEXT("Slice", VALUE_STRING, IN_BOTH, SLICE_UNIT),
        /* A launcher that dies takes its runs along; without the start limit its restart would start them
         * again. */
        FIXED_TEXT("BindsTo", VALUE_STRINGS, IN_SYSTEM, LAUNCHER_UNIT),
        FIXED_TEXT("After", VALUE_STRINGS, IN_SYSTEM, LAUNCHER_UNIT),
        /* Stopping goes the other way round: when somebody restarts the launcher, the daemon first answers
         * its calls, then what runs is stopped, then the launcher. Not before the daemon itself: a start
         * waits for the stop of whatever it is ordered with, so that no run could start while a daemon that
         * is restarted answers its last calls. */
        FIXED_TEXT("Before", VALUE_STRINGS, IN_SYSTEM, RUNS_UNIT),
        FIXED_NUMBER("StartLimitBurst", VALUE_UINT32, IN_BOTH, 1),
        FIXED_NUMBER("StartLimitIntervalUSec", VALUE_UINT64, IN_BOTH, 24 * 3600 * USEC_PER_SEC),
        /* A failed run is the program's affair: PID 1 logs errors of its own making only. */
        FIXED_NUMBER("LogLevelMax", VALUE_INT32, IN_BOTH, 3),

        COMPUTED("ExecStartEx", VALUE_EXEC, IN_BOTH, SOURCE_COMMAND),
        FIXED_NUMBER("StandardInputFileDescriptor", VALUE_FD, IN_BOTH, WIRE_FD_CONTROL),
        FIXED_NUMBER("StandardOutputFileDescriptor", VALUE_FD, IN_BOTH, WIRE_FD_STDOUT),
        FIXED_NUMBER("StandardErrorFileDescriptor", VALUE_FD, IN_BOTH, WIRE_FD_STDERR),
        COMPUTED("Environment", VALUE_STRINGS, IN_BOTH, SOURCE_ENVIRONMENT),
        COMPUTED("UnsetEnvironment", VALUE_STRINGS, IN_BOTH, SOURCE_UNSET_ENVIRONMENT),
        FIXED_TEXT("WorkingDirectory", VALUE_STRING, IN_BOTH, "/"),
        FIXED_NUMBER("UMask", VALUE_UINT32, IN_BOTH, 022), /* its files are collected by another uid */
        FIXED_NUMBER("IgnoreSIGPIPE", VALUE_BOOL, IN_BOTH, false), /* as from a shell */

        /* Who it is. A user manager fails open on namespaces unless PrivateUsers= is explicit. */
        NUMBER_FOR(FOR_CODE, "DynamicUser", VALUE_BOOL, IN_SYSTEM, true),
        TEXT_FOR(FOR_PREPARING, "User", VALUE_STRING, IN_SYSTEM, PREPARE_USER),
        /* Units of one user, which must not reach each other's set through /proc/PID/root. */
        NUMBER_FOR(FOR_PREPARING, "PrivateUsers", VALUE_BOOL, IN_SYSTEM, true),
        FIXED_NUMBER("PrivateUsers", VALUE_BOOL, IN_USER, true),
        { .profiles = FOR_ALL, .name = "PrivatePIDs", .kind = VALUE_STRING, .where = IN_USER,
          .min_version = 257, .text = "yes" },
        FIXED_NUMBER("NoNewPrivileges", VALUE_BOOL, IN_BOTH, true),
        FIXED_NUMBER("CapabilityBoundingSet", VALUE_UINT64, IN_BOTH, 0),
        FIXED_NUMBER("AmbientCapabilities", VALUE_UINT64, IN_BOTH, 0),
        FIXED_TEXT("KeyringMode", VALUE_STRING, IN_SYSTEM, "private"),

        /* What it sees: an empty skeleton with /usr in it. The '+' makes a path relative to the skeleton;
         * without it the entry would silently do nothing. Without hiding devpts one run could take every
         * pty of the host. */
        FIXED_TEXT("RootDirectory", VALUE_STRING, IN_BOTH, MCP_EXEC_LIBDIR "/root"),
        FIXED_NUMBER("MountAPIVFS", VALUE_BOOL, IN_BOTH, true),
        FIXED_TEXT("ProtectSystem", VALUE_STRING, IN_USER, "strict"), /* DynamicUser= implies it elsewhere */
        TEXT_FOR(FOR_PREPARING, "ProtectSystem", VALUE_STRING, IN_SYSTEM, "strict"),
        COMPUTED("BindReadOnlyPaths", VALUE_BINDS, IN_BOTH, SOURCE_BINDS),
        COMPUTED_FOR(FOR_RUN, "BindReadOnlyPaths", VALUE_BINDS_TO, IN_BOTH, SOURCE_SET),
        /* PARSE only asks uv for its version. */
        COMPUTED_FOR(FOR_PREPARING | FOR_PARSE, "BindReadOnlyPaths", VALUE_BINDS_TO, IN_BOTH, SOURCE_TOOLS),
        /* One leaf each: neither its siblings nor the directory around them can be reached. */
        COMPUTED_FOR(FOR_PREPARING, "StateDirectory", VALUE_STRINGS, IN_SYSTEM, SOURCE_LEAF_DIRECTORY),
        NUMBER_FOR(FOR_PREPARING, "StateDirectoryMode", VALUE_UINT32, IN_SYSTEM, 0755),
        COMPUTED_FOR(FOR_PREPARING, "BindPaths", VALUE_BINDS_TO, IN_BOTH, SOURCE_LEAF),
        COMPUTED_FOR(FOR_FETCH, "LoadCredential", VALUE_CREDENTIALS, IN_BOTH, SOURCE_CREDENTIALS),
        COMPUTED("TemporaryFileSystem", VALUE_TMPFS, IN_BOTH, SOURCE_TMPFS),
        COMPUTED("InaccessiblePaths", VALUE_STRINGS, IN_BOTH, SOURCE_INACCESSIBLE),
        NUMBER_FOR(FOR_OFFLINE, "PrivateNetwork", VALUE_BOOL, IN_BOTH, true),
        FIXED_NUMBER("PrivateIPC", VALUE_BOOL, IN_BOTH, true),
        FIXED_NUMBER("PrivateDevices", VALUE_BOOL, IN_BOTH, true),
        FIXED_TEXT("ProtectProc", VALUE_STRING, IN_BOTH, "invisible"),
        FIXED_TEXT("ProcSubset", VALUE_STRING, IN_BOTH, "pid"),
        /* No wall, but the host's name is nobody's business. Before 258 it is seen: a namespace of its own
         * would start with it, and only a capability could change it. */
        { .profiles = FOR_ALL, .name = "ProtectHostnameEx", .kind = VALUE_PAIR, .where = IN_BOTH,
          .min_version = 258, .is_optional = true, .text = "private sandbox" },
        OPTIONAL_NUMBER("BindLogSockets", VALUE_BOOL, IN_BOTH, false,
                        257), /* the journal's would be there */

        /* What it may ask of the kernel. io_uring opens sockets past RestrictAddressFamilies=, and
         * @system-service contains it, so it is denied by name. @aio: its contexts come out of one small
         * number for the whole machine (fs.aio-max-nr), which a single run could take from every database
         * on it. inotify: it would tell a run what other runs and the host open below /usr and in its set.
         * sync: all of the machine's disks, at the word of one run; INSTALL needs its own file system's. */
        FIXED_NUMBER("RestrictNamespaces", VALUE_UINT64, IN_BOTH, 0),
        FIXED_NUMBER("RestrictSUIDSGID", VALUE_BOOL, IN_BOTH, true),
        FIXED_NUMBER("RestrictRealtime", VALUE_BOOL, IN_BOTH, true),
        FIXED_NUMBER("LockPersonality", VALUE_BOOL, IN_BOTH, true),
        TEXT_FOR(FOR_OFFLINE, "RestrictAddressFamilies", VALUE_ALLOW, IN_BOTH, ""),
        TEXT_FOR(FOR_FETCH, "RestrictAddressFamilies", VALUE_ALLOW, IN_BOTH, "AF_INET AF_INET6"),
        FIXED_TEXT("SystemCallArchitectures", VALUE_STRINGS, IN_BOTH, "native"),
        FIXED_NUMBER("SystemCallErrorNumber", VALUE_INT32, IN_BOTH, 1),
        FIXED_TEXT("SystemCallFilter", VALUE_ALLOW, IN_BOTH, "@system-service"),
        FIXED_TEXT("SystemCallFilter", VALUE_DENY, IN_BOTH,
                   "@privileged @resources @keyring @debug @aio io_uring_setup io_uring_enter "
                   "io_uring_register userfaultfd inotify_init inotify_init1 sync"),
        TEXT_FOR(FOR_CODE, "SystemCallFilter", VALUE_DENY, IN_BOTH, "syncfs"),

        /* How much of everything. */
        COMPUTED("MemoryMax", VALUE_UINT64, IN_BOTH, SOURCE_MEMORY_MAX),
        FIXED_NUMBER("MemorySwapMax", VALUE_UINT64, IN_BOTH, 0),
        OPTIONAL_NUMBER("MemoryZSwapMax", VALUE_UINT64, IN_BOTH, 0, 253),
        COMPUTED("TasksMax", VALUE_UINT64, IN_BOTH, SOURCE_TASKS_MAX),
        COMPUTED("CPUQuotaPerSecUSec", VALUE_UINT64, IN_BOTH, SOURCE_CPU_QUOTA),
        COMPUTED("RuntimeMaxUSec", VALUE_UINT64, IN_BOTH, SOURCE_RUNTIME_MAX),
        FIXED_NUMBER("LimitCORE", VALUE_UINT64, IN_BOTH,
                     1), /* at 0 a core_pattern pipe still gets the core */
        FIXED_NUMBER("LimitNOFILE", VALUE_UINT64, IN_BOTH, 4096),
        COMPUTED("LimitFSIZE", VALUE_UINT64, IN_BOTH, SOURCE_FILE_SIZE),
        FIXED_NUMBER("LimitMEMLOCK", VALUE_UINT64, IN_BOTH, 0),
        FIXED_NUMBER("LimitMSGQUEUE", VALUE_UINT64, IN_BOTH, 0),
        { .profiles = FOR_ALL,
          .name = "MemoryPressureWatch",
          .kind = VALUE_STRING,
          .where = IN_BOTH,
          .min_version = 254,
          .is_optional = true,
          .text = "off" },

        /* How it ends. KillSignal=9: "timeout" then only ever means RuntimeMax, and children die at once. */
        FIXED_NUMBER("TimeoutStopUSec", VALUE_UINT64, IN_BOTH, 1 * USEC_PER_SEC),
        FIXED_NUMBER("KillSignal", VALUE_INT32, IN_BOTH, 9),
        FIXED_TEXT("OOMPolicy", VALUE_STRING, IN_BOTH, "kill"),
        FIXED_NUMBER("OOMScoreAdjust", VALUE_INT32, IN_BOTH, 500),
};

const size_t profile_n_rows = ELEMENTSOF(profile_rows);

const ProfileRow* profile_find(const char *name) {
        assert(name);

        for (size_t i = 0; i < profile_n_rows; i++)
                if (streq(profile_rows[i].name, name))
                        return profile_rows + i;

        return NULL;
}

static const char *const profile_names[_WIRE_PROFILE_MAX] = {
        [WIRE_PROFILE_RUN] = "run",
        [WIRE_PROFILE_PARSE] = "parse",
        [WIRE_PROFILE_FETCH] = "fetch",
        [WIRE_PROFILE_INSTALL] = "install",
};

const char* profile_to_string(WireProfile p) {
        return (unsigned) p < _WIRE_PROFILE_MAX ? profile_names[p] : NULL;
}

WireProfile profile_from_string(const char *s) {
        assert(s);

        for (unsigned i = 0; i < _WIRE_PROFILE_MAX; i++)
                if (streq(s, profile_names[i]))
                        return (WireProfile) i;
        return _WIRE_PROFILE_MAX;
}
