/* SPDX-License-Identifier: MIT */
#pragma once

/* Attempts to do what the system call filter has to refuse. */

/* Tries every one, in a process that is not to do anything else if one succeeds (it may then be traced or stand in a
 * namespace of its own). writable_dir is where files may be made. Returns a check number. */
int probe_system_calls(const char *writable_dir);
