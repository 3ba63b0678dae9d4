/* SPDX-License-Identifier: MIT */
#pragma once

/* What the kernel counted for a run's control group while it exists. */

#include <stdbool.h>

/* Whether a fork was refused to this unit for its limit of tasks. False also where that cannot be known. */
bool cgroup_has_met_tasks_max(bool is_user, const char *unit);
