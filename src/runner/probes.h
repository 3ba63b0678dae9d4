/* SPDX-License-Identifier: MIT */
#pragma once

/* Attempts to do what the system call filter has to refuse. Both return a check number (checks.h). */

#include <stdbool.h>

/* Those that leave no trace in this process whatever comes of them, and cost a few microseconds. may_use_ip:
 * sockets of the Internet are meant to be possible. */
int probe_harmless(bool may_use_ip);

/* Every one, in a process that is not to do anything else if one succeeds (it may then be traced, or
 * stand in a namespace of its own). writable_dir is where files may be made. */
int probe_all(const char *writable_dir);
