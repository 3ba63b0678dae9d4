/* SPDX-License-Identifier: MIT */

#include "tool/script.h"

#include <errno.h>

#include "base/strv.h"

/* Far beyond what anybody lists by hand; each becomes a part of a sandboxed parser's input. */
#define DEPENDENCIES_MAX 200
#define DEPENDENCY_BYTES_MAX 1000

static int refuse(char **reterr_message, const char *text) {
        int r = str_copy(reterr_message, text);

        return r < 0 ? r : -EBADMSG;
}

int script_take_dependencies(const JsonValue *v, char ***ret, char **reterr_message) {
        _cleanup_strv_ char **l = NULL;
        int r;

        assert(ret);
        assert(reterr_message);

        if (json_length(v) > DEPENDENCIES_MAX)
                return refuse(reterr_message, "dependencies may have at most 200 elements");
        for (size_t i = 0; i < json_length(v); i++) {
                const char *s;
                size_t n;

                if (!json_get_string(json_element(v, i), &s, &n))
                        return refuse(reterr_message, "argument \"dependencies\" must be an array of "
                                                      "strings, such as [\"numpy>=2\"]");
                if (n > DEPENDENCY_BYTES_MAX)
                        return refuse(reterr_message,
                                      "an element of dependencies exceeds the limit of 1000 bytes");
                r = strv_extend(&l, s);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(l);
        return 0;
}
