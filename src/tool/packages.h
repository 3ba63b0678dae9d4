/* SPDX-License-Identifier: MIT */
#pragma once

/* What programs can import, learned by looking at directories: nothing is executed for it. */

/* "name version" of every distribution of Debian's and other system-wide Pythons, sorted without regard to
 * case, each name once. Directories that are not there or not readable count as empty. *ret is NULL when
 * there are none. Returns 0 or -ENOMEM. */
int tool_packages_scan(char ***ret);

/* The same below another root, for tests. root_fd is an open directory. */
int tool_packages_scan_at(int root_fd, char ***ret);
