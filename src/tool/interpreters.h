/* SPDX-License-Identifier: MIT */
#pragma once

/* Which interpreters there are, as far as that shows in their names: nothing is executed for it. */

#include "base/settings.h"

/* "3.13 (/usr/bin/python3)" for Python= and each of ExtraPythons=, in this order; those that are not there
 * are left out. Two with the same version are told once. Returns 0 or -ENOMEM. */
int tool_interpreters_scan(const Settings *s, char ***ret);

/* Appends one that is known to be there. version: what it says itself ("3.13.5"); NULL or "": not known. */
int tool_interpreters_add(const char *path, const char *version, char ***l);
