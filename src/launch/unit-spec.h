/* SPDX-License-Identifier: MIT */
#pragma once

/* UnitSpec: the profile filled in for one unit. Pure data made from data: no bus, no file is touched here,
 * so that every value can be tested, printed and compared. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "base/settings.h"
#include "launch/profile.h"
#include "wire/wire.h"

/* One property of a unit, ready for the bus. See ValueKind for the meaning of number and strings. */
typedef struct Property {
        const char *name;
        ValueKind kind;
        uint64_t number;
        char **strings;
} Property;

typedef struct UnitSpec {
        WireProfile profile;
        Property *properties;
        size_t n_properties;
} UnitSpec;

/* All of it is borrowed. */
typedef struct UnitInput {
        bool is_user;
        bool is_selftest;                 /* the runner looks at its walls and runs nobody's code */
        WireProfile profile;
        const char *set;                  /* path of the set or leaf; NULL: none */
        const char *leaf;                 /* the leaf's name below the sets' directory, in system mode */
        const char *uv;                   /* to be mounted at UV_PATH_INSIDE, or NULL */
        const char *ca_bundle, *index_credentials; /* files for FETCH, or NULL */
        unsigned manager_version;
        const Settings *settings;
        WireLimits limits;                /* clamped */
        const char *python;               /* absolute path of the interpreter */
        const char *namespaces;           /* the launcher's own, "net=N,mnt=N,…": none may be the run's */
        char *const *manager_environment; /* "NAME=value" of the service manager: must not reach the run */
        bool has_usr_mounts;              /* other file systems are mounted below /usr */
        bool has_usr_local_mount;         /* one of them on /usr/local */
        char *const *without;             /* optional properties that this manager turned out not to know */
} UnitInput;

int unit_spec_new(const UnitInput *in, UnitSpec **ret);
UnitSpec* unit_spec_free(UnitSpec *s);
DEFINE_CLEANUP(UnitSpec*, unit_spec_free);

/* Appends "Name=value\n" for each property. */
int unit_spec_print(const UnitSpec *s, Buffer *b);

/* The most that any unit of this profile may have under these settings. */
WireLimits limits_ceiling(const Settings *s, WireProfile profile);

/* Brings each limit between its floor and the ceiling. The daemon has clamped already: this repetition is
 * deliberate, for the daemon parses hostile bytes and may be somebody else's by now. */
void limits_clamp(WireLimits *l, const WireLimits *ceiling);
