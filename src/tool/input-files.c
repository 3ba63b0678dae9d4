/* SPDX-License-Identifier: MIT */

#include "tool/input-files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/base64.h"
#include "base/strv.h"
#include "exec/size-text.h"

/* Says what is wrong. path: of the file or its member, for people. */
static int refuse(char **reterr_message, const char *path, const char *what) {
        int r = str_printf(reterr_message, "%s %s", path, what);

        return r < 0 ? r : -EBADMSG;
}

static int add_file(const Settings *s, ExecRequest *q, const char *path, const char *name, const char *data,
                    size_t n_bytes, char **reterr_message) {
        uint64_t n_total = (uint64_t) q->stdin_bytes + n_bytes;
        int r;

        for (size_t i = 0; i < q->n_files; i++)
                n_total += q->files[i].n_bytes;
        if (n_total > s->max_stdin_bytes) {
                r = str_printf(reterr_message, "%s together exceed the limit of %" PRIu64
                               " bytes (the server's setting is MaxStdinBytes=)",
                               q->stdin_data ? "files and stdin" : "files", s->max_stdin_bytes);
                return r < 0 ? r : -EBADMSG;
        }
        r = exec_request_add_file(q, name, data, n_bytes);
        if (r == -EINVAL)
                return refuse(reterr_message, path,
                              "must have the name of a file in the working directory: at most 255 bytes, no "
                              "\"/\", and not main.py, which is the program");
        if (r == -EEXIST)
                return refuse(reterr_message, path, "has the name of another one");
        if (r == -E2BIG)
                return refuse(reterr_message, path, "is one too many: at most 64 are taken");
        return r;
}

static int take_file(const Settings *s, const JsonValue *v, const char *path, ExecRequest *q,
                     char **reterr_message) {
        const JsonValue *name = NULL, *text = NULL, *base64 = NULL;
        const JsonField fields[] = {
                { "name", JSON_STRING, .is_required = true, .ret = &name },
                { "text", JSON_STRING, .accepts_null = true, .ret = &text },
                { "base64", JSON_STRING, .accepts_null = true, .ret = &base64 },
        };
        _cleanup_buffer_ Buffer decoded = BUFFER_INIT(0);
        const char *name_text, *data;
        size_t n_bytes;
        int r;

        r = json_read_object(v, path, fields, ELEMENTSOF(fields), reterr_message);
        if (r < 0)
                return r;
        if (!text == !base64)
                return refuse(reterr_message, path, "must have either text or base64");

        (void) json_get_string(name, &name_text, NULL);
        (void) json_get_string(text ?: base64, &data, &n_bytes);
        if (base64) {
                r = base64_decode(data, n_bytes, &decoded);
                if (r == -EBADMSG)
                        return refuse(reterr_message, path, "has no valid Base64 (RFC 4648, with padding)");
                if (r < 0)
                        return r;
                data = decoded.data;
                n_bytes = decoded.n_bytes;
        }
        return add_file(s, q, path, name_text, data, n_bytes, reterr_message);
}

int input_files_take(const Settings *s, const JsonValue *v, ExecRequest *q, char **reterr_message) {
        assert(s && q && reterr_message);

        for (size_t i = 0; v && i < json_length(v); i++) {
                char path[32];
                int r;

                (void) snprintf(path, sizeof(path), "files[%zu]", i);
                r = take_file(s, json_element(v, i), path, q, reterr_message);
                if (r < 0)
                        return r;
        }
        return 0;
}

void input_files_describe(const Settings *s, const char *together, char ret[static INPUT_FILES_TEXT_BYTES]) {
        assert(s && together && ret);

        (void) snprintf(ret, INPUT_FILES_TEXT_BYTES,
                        "Files put into the working directory before the program starts, each with its name "
                        "and either text or base64. %s at most %s, %d files.",
                        together, size_text_bytes(s->max_stdin_bytes).text, EXEC_INPUT_FILES_MAX);
}
