/* SPDX-License-Identifier: MIT */
#pragma once

/* News for the service manager that may be lost. sd_notify() waits as long as the manager does not read, and
 * with it would wait everybody's answers; a status line is not worth that. What must arrive (READY=,
 * STOPPING=) is sent by sd_notify() all the same. */

/* Sends text, and fd unless it is negative. Returns 0, also when no manager asked for it, or -errno
 * (-EAGAIN: it does not read just now). */
int notify_now(const char *text, int fd);
