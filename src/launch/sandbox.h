/* SPDX-License-Identifier: MIT */
#pragma once

/* Sandbox: everything that a unit needs beside its request, and whether it may be trusted on this
 * machine. */

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "base/settings.h"
#include "launch/manager.h"
#include "launch/packages.h"
#include "launch/problem.h"
#include "launch/sets.h"
#include "launch/unit-spec.h"

typedef struct Sandbox {
        bool is_user;
        const char *uv_path;   /* in place of UvPath=; NULL: as the settings say */
        Settings *settings;
        Manager *manager;      /* NULL: there is none, problem says why */
        WireLimits ceilings[_WIRE_PROFILE_MAX];
        char *python;
        Packages packages;
        Sets *sets;            /* NULL where nothing is to be started */
        char *namespaces;
        bool has_usr_mounts, has_usr_local_mount;
        char **without;        /* optional properties that this manager does not know */
        unsigned controllers;  /* found to be enforced on a unit, mask of Controller */
        bool has_problem;      /* every run is refused, with problem */
        Problem problem;
} Sandbox;

/* Finds out what can be known without starting a unit. Blocks. Whatever is missing on the machine becomes
 * the problem, not an error: a client that asks shall be told. event: may be NULL when no job will be
 * started. uv_path: borrowed, in place of UvPath=; may be NULL. */
int sandbox_new(sd_event *event, bool is_user, const char *uv_path, Sandbox **ret);

/* Only the parts that printing needs, for a manager that is not there. */
int sandbox_new_for_version(bool is_user, unsigned version, Sandbox **ret);

/* Whether what was missing for packages has come: somebody connects, or asks for them. */
void sandbox_look_again(Sandbox *s);

/* What one unit is asked to be. */
typedef struct UnitChoice {
        bool is_selftest;
        WireProfile profile;
        unsigned interpreter;  /* one of those that sandbox_interpreter() knows */
        const SetName *set;    /* or NULL */
        WireLimits limits;     /* clamped */
} UnitChoice;

int sandbox_unit_spec(const Sandbox *s, const UnitChoice *choice, UnitSpec **ret);

/* Path of the interpreter with this index, or NULL. */
const char* sandbox_interpreter(const Sandbox *s, unsigned index);

/* What a verdict was made of: equal text, equal verdict. Without what changes at each start. */
int sandbox_fingerprint(const Sandbox *s, Buffer *b);

/* Whether this manager can do it at all, as far as it says so itself. Returns 0, or -errno with the
 * problem. */
int sandbox_check_manager(const Manager *m, Problem *reterr_problem);

/* Path of the interpreter, from a setting that may be a bare name. Checks that a run can see and execute
 * it. */
bool path_is_visible(const char *path, char *const *binds);
int interpreter_resolve(const char *name, char *const *binds, char **ret, Problem *reterr_problem);

Sandbox* sandbox_free(Sandbox *s);
DEFINE_CLEANUP(Sandbox*, sandbox_free);
