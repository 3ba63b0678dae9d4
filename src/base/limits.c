/* SPDX-License-Identifier: MIT */

#include "base/limits.h"

#include "base/macro.h"

bool principal_is_of(const char *principal, const char *group) {
        size_t n;

        assert(principal);
        assert(group);

        n = strlen(group);
        return n > 0 && strncmp(principal, group, n) == 0 && memchr("/:", principal[n], 3);
}
