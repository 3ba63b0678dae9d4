/* SPDX-License-Identifier: MIT */
#pragma once

/* Closes a descriptor that may be the last thing that a run's tmpfs lives by. The kernel then frees all that
 * the run left there before close() returns: more than a second for some hundred thousand files, in which
 * nobody would be answered. Where it is that much, a thread that does nothing else waits for it. */

/* fd may be negative. Returns -EBADF. */
int close_aside(int fd);
