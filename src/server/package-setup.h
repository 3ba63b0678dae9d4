/* SPDX-License-Identifier: MIT */
#pragma once

/* What python/ needs of this process's surroundings. */

#include "base/settings.h"
#include "python/python.h"

/* Where it is remembered which script led to which set of packages. is_user: of a user's own server. *ret
 * stays NULL where there is no place. */
int packages_find_state_directory(bool is_user, char **ret);

/* DefaultRequirements=. A mistake in it is logged and keeps no program from running. */
int packages_use_default(Python *python, const Settings *settings);
