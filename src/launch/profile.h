/* SPDX-License-Identifier: MIT */
#pragma once

/* Profiles: which properties a unit gets. Pure data, one row each; everything else about them follows from
 * here. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "wire/wire.h"

/* How a value looks on the bus, and how `strings` and `number` of a property are to be read. */
typedef enum ValueKind {
        VALUE_BOOL,    /* b */
        VALUE_INT32,   /* i */
        VALUE_UINT32,  /* u */
        VALUE_UINT64,  /* t */
        VALUE_STRING,  /* s */
        VALUE_STRINGS, /* as */
        VALUE_ALLOW,   /* (bas): only these; none at all when empty */
        VALUE_DENY,    /* (bas): all but these */
        VALUE_BINDS,   /* a(ssbt): paths, each bound to itself; a leading '-' tolerates its absence, a
                        * trailing BIND_RECURSIVE takes the mounts below along */
        VALUE_BINDS_TO, /* a(ssbt): pairs, what is bound and where */
        VALUE_TMPFS,   /* a(ss): "PATH:OPTIONS" */
        VALUE_CREDENTIALS, /* a(ss): "ID:PATH" */
        VALUE_PAIR,    /* (ss) */
        VALUE_EXEC,    /* a(sasas): one command line */
        VALUE_FD,      /* h: number is an index of the START message's descriptors */
        _VALUE_KIND_MAX,
} ValueKind;

#define BIND_RECURSIVE ":rbind"

/* Where a row's value comes from. */
typedef enum ProfileSource {
        SOURCE_FIXED, /* from the row: number or text (lists are separated by spaces) */
        SOURCE_COMMAND,
        SOURCE_BINDS,
        SOURCE_TMPFS,
        SOURCE_INACCESSIBLE,
        SOURCE_ENVIRONMENT,
        SOURCE_UNSET_ENVIRONMENT,
        SOURCE_MEMORY_MAX,
        SOURCE_TASKS_MAX,
        SOURCE_CPU_QUOTA,
        SOURCE_RUNTIME_MAX,
        SOURCE_FILE_SIZE,
        /* The rows of these are there only when there is something in them. */
        SOURCE_SET,            /* the set of a run, at /env */
        SOURCE_LEAF,           /* the set that is being made, at /env */
        SOURCE_LEAF_DIRECTORY, /* the same for the service manager, which makes it and gives it its owner */
        SOURCE_TOOLS,          /* uv, the CA bundle */
        SOURCE_CREDENTIALS,
        _PROFILE_SOURCE_MAX,
} ProfileSource;

enum {
        IN_SYSTEM = 1 << 0,
        IN_USER = 1 << 1,
        IN_BOTH = IN_SYSTEM | IN_USER,
};

/* Masks of WireProfile. */
enum {
        FOR_RUN = 1 << WIRE_PROFILE_RUN,
        FOR_PARSE = 1 << WIRE_PROFILE_PARSE,
        FOR_FETCH = 1 << WIRE_PROFILE_FETCH,
        FOR_INSTALL = 1 << WIRE_PROFILE_INSTALL,
        FOR_PREPARING = FOR_FETCH | FOR_INSTALL,     /* writes to a set */
        FOR_CODE = FOR_RUN | FOR_PARSE,              /* a user of its own each time */
        FOR_OFFLINE = FOR_CODE | FOR_INSTALL,
        FOR_ALL = FOR_OFFLINE | FOR_FETCH,
};

typedef struct ProfileRow {
        unsigned profiles;
        const char *name;
        ValueKind kind;
        ProfileSource source;
        unsigned where;        /* IN_SYSTEM, IN_USER */
        unsigned min_version;  /* managers before it do not know the property; 0: every supported one does */
        unsigned max_version;  /* the last that knows it; 0: no end in sight */
        bool is_optional;      /* the sandbox is whole without it; all others must be accepted */
        uint64_t number;
        const char *text;
} ProfileRow;

#define LAUNCHER_UNIT "mcp-exec-launcher.service"
#define RUNS_UNIT "mcp-exec-runs.target"
#define SLICE_UNIT "mcp-exec.slice"

#define MANAGER_VERSION_MIN 252      /* the oldest that this profile was proven on */
#define MANAGER_VERSION_MIN_USER 257 /* PrivatePIDs=: before it all of a user's processes could be killed */
#define MANAGER_VERSION_MEMORY_PEAK 255

/* Sets of packages are made by this user, from whose uid no script ever runs. */
#define PREPARE_USER "mcp-exec-prepare"
#define SETS_STATE_DIRECTORY "mcp-exec/sets" /* below /var/lib, as StateDirectory= has it */
#define SETS_DIRECTORY "/var/lib/" SETS_STATE_DIRECTORY
/* Places in the skeleton that no program need stumble over. */
#define UV_PATH_INSIDE "/var/lib/mcp-exec/uv" /* where uv is mounted that is not below /usr */
#define TMP_ALIAS "/var/zz/tmp"              /* a link to /tmp that sorts behind /tmp and /var/tmp */

extern const ProfileRow profile_rows[];
extern const size_t profile_n_rows;

const ProfileRow* profile_find(const char *name);
static inline bool profile_has_leaf(WireProfile p) {
        return p == WIRE_PROFILE_FETCH || p == WIRE_PROFILE_INSTALL;
}

const char* profile_to_string(WireProfile p);
WireProfile profile_from_string(const char *s); /* _WIRE_PROFILE_MAX for an unknown word */
