/* SPDX-License-Identifier: MIT */
#pragma once

/* Packages: what this machine has for installing packages: uv, more interpreters, files for the index. */

#include "base/settings.h"
#include "launch/problem.h"
#include "wire/wire.h"

typedef struct Packages {
        char *pythons[WIRE_INTERPRETERS_MAX]; /* by index; 0 is the sandbox's; NULL: cannot be used */
        char *uv;                             /* NULL: there is none */
        const char *uv_inside;                /* its path in a unit */
        char *ca_bundle, *index_credentials;  /* NULL: none */
        bool has_problem;                     /* nothing can be fetched, with problem */
        bool is_setting_wrong;                /* the problem is one that the administrator made */
        bool is_python_missing;               /* one of ExtraPythons= */
        Problem problem;
} Packages;

/* Whatever is missing becomes the problem. Returns 0 or -ENOMEM. */
int packages_find(Packages *p, const Settings *settings, bool is_user);
/* What was missing may be there by now, for somebody did what the problem says. Or a file of the settings is
 * not there any more, or uv is another one. */
void packages_look_again(Packages *p, const Settings *settings, bool is_user);
void packages_done(Packages *p);
