/* SPDX-License-Identifier: MIT */

#include "exec/sentence.h"

#include "base/macro.h"
#include "base/strv.h"

static const char* stop_of(const char *s) {
        size_t n = strlen(s);

        return n == 0 || strchr(".!?", s[n - 1]) ? "" : ".";
}

int sentence_join(const char *reason, const char *remedy, char **ret) {
        assert(reason);
        assert(remedy);
        assert(ret);

        return str_printf(ret, "%s%s%s%s%s", reason, stop_of(reason), *reason && *remedy ? " " : "", remedy,
                          stop_of(remedy));
}
