/* SPDX-License-Identifier: MIT */
#pragma once

/* Principals: what each of them may use. Holds the access file (auth/access.h), what it says for those who
 * were here lately, and how much of their rate they have used. */

#include "auth/access.h"
#include "base/limits.h"

typedef struct Principals Principals;

/* path NULL: nobody has limits, and no tokens have names. Returns 0, -EBADMSG with a message, or -errno. */
int principals_new(const char *path, Principals **ret, char **reterr_message);
Principals* principals_free(Principals *p);
DEFINE_CLEANUP(Principals*, principals_free);

/* Borrowed, until the next reload. */
const Access* principals_access(const Principals *p);

/* Reads the file again. Where that fails the old content stays; the message says why. *ret_old: what was in
 * use until now, to be freed once nobody refers to it. */
int principals_reload(Principals *p, Access **ret_old, char **reterr_message);

/* For ExecEngineParameters.admit. Counts towards the rate. */
int principals_admit(Principals *p, const char *principal, PrincipalLimits *ret, char **reterr_message);
