/* SPDX-License-Identifier: MIT */

/* mcp-exec.prepare {script?, requirements?, lines?}: makes a set of packages ahead of the programs that need
 * it. For `mcp-exec env prepare`; clients are not told of it. What runs in the end is nothing but comments,
 * so whoever may run programs may call it. */

#include <errno.h>
#include <limits.h>

#include "base/strv.h"
#include "tool/exec.h"
#include "tool/script.h"

static int refuse(char **reterr_message, const char *text) {
        int r = str_copy(reterr_message, text);

        return r < 0 ? r : -EBADMSG;
}

/* The number of each requirement's line in its file. */
static int take_lines(const JsonValue *v, size_t n_expected, unsigned **ret, char **reterr_message) {
        _cleanup_free_ unsigned *lines = NULL;

        if (json_length(v) != n_expected)
                return refuse(reterr_message, "lines must have an element for each of requirements");
        lines = calloc(n_expected + 1, sizeof(*lines));
        if (!lines)
                return -ENOMEM;
        for (size_t i = 0; i < n_expected; i++) {
                int64_t line;

                if (!json_get_integer(json_element(v, i), &line) || line < 1 || line > INT_MAX)
                        return refuse(reterr_message, "lines must be numbers from 1 on");
                lines[i] = (unsigned) line;
        }
        *ret = TAKE_PTR(lines);
        return 0;
}

static int read_arguments(const Settings *s, const JsonValue *arguments, ExecRequest *q,
                          ExecCallParameters *ret, char **reterr_message) {
        const JsonValue *script = NULL, *requirements = NULL, *lines = NULL;
        const JsonField fields[] = {
                { "script", JSON_STRING, .is_required = true, .ret = &script },
                { "requirements", JSON_ARRAY, .ret = &requirements },
                { "lines", JSON_ARRAY, .ret = &lines },
        };
        int r;

        r = json_read_object(arguments, NULL, fields, ELEMENTSOF(fields), reterr_message);
        if (r < 0)
                return r;
        r = exec_take_program(s, "script", script, q, reterr_message);
        if (r < 0)
                return r;
        q->timeout_usec = exec_pick_timeout(s, NULL);
        ret->is_prepared_ahead = true;
        r = script_take_dependencies(requirements, &ret->dependencies, reterr_message);
        if (r < 0 || !lines)
                return r;
        return take_lines(lines, strv_length(ret->dependencies), &ret->lines, reterr_message);
}

static int call_prepare(ToolRegistry *registry, const JsonValue *arguments, McpCall *call) {
        return exec_call(registry, tool_prepare.name, read_arguments, arguments, call);
}

const Tool tool_prepare = {
        .name = "mcp-exec.prepare",
        .call = call_prepare,
};
