/* SPDX-License-Identifier: MIT */

#include "server/run-request.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/macro.h"
#include "json/json.h"
#include "server/client-call.h"
#include "transport/transport.h"

void run_file_done(RunFile *f) {
        assert(f);

        free(f->name);
        free(f->data);
        *f = (RunFile) {};
}

static int write_file(JsonWriter *w, const RunFile *file) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r;

        r = base64_append(&b, file->data, file->n_bytes);
        if (r < 0)
                return r;
        json_begin_object(w);
        json_key(w, "name");
        json_string(w, file->name);
        json_key(w, "base64");
        json_string_n(w, b.data ?: "", b.n_bytes);
        json_end_object(w);
        return 0;
}

static int write_arguments(JsonWriter *w, const void *userdata) {
        const RunRequest *request = userdata;

        json_begin_object(w);
        json_key(w, "code");
        json_string_n(w, request->code, request->code_bytes);
        if (request->stdin_data) {
                json_key(w, "stdin");
                json_string_n(w, request->stdin_data, request->stdin_bytes);
        }
        if (request->n_files > 0) {
                json_key(w, "files");
                json_begin_array(w);
                for (size_t i = 0; i < request->n_files; i++) {
                        int r = write_file(w, request->files + i);

                        if (r < 0)
                                return r;
                }
                json_end_array(w);
        }
        if (request->timeout_sec > 0) {
                json_key(w, "timeout_s");
                json_unsigned(w, request->timeout_sec);
        }
        json_end_object(w);
        return w->error;
}

int run_request_write(const RunRequest *request, Buffer *b) {
        size_t n_before;
        int r;

        assert(request);
        assert(b);

        n_before = b->n_bytes;
        r = client_call_write(&(ClientCall) {
                .client = "mcp-exec run",
                .tool = "exec",
                .write_arguments = write_arguments,
                .userdata = request,
                .wants_progress = isatty(STDERR_FILENO),
                .wants_output = true,
                .wants_files = request->output_dir_fd >= 0,
        }, b);
        if (r < 0)
                return r;
        /* The handshake is in it, too: a few hundred bytes. */
        return b->n_bytes - n_before > LINE_BYTES_MAX ? -EMSGSIZE : 0;
}

/* The file of which a text like "files[1] has …" speaks; NULL: of none. */
static const RunFile* find_file(const RunRequest *request, const char *text, const char **ret_rest) {
        static const char prefix[] = "files[";
        size_t i = 0;

        if (strncmp(text, prefix, sizeof(prefix) - 1) != 0)
                return NULL;
        text += sizeof(prefix) - 1;
        if (*text < '0' || *text > '9')
                return NULL;
        for (; *text >= '0' && *text <= '9' && i < request->n_files; text++)
                i = i * 10 + (size_t) (*text - '0');
        if (*text != ']' || i >= request->n_files)
                return NULL;
        *ret_rest = text + 1;
        return request->files + i;
}

int run_request_explain(const RunRequest *request, const char *text, Buffer *b) {
        static const char code[] = "code ";
        const RunFile *file;
        const char *rest;
        int r;

        assert(request);
        assert(text);
        assert(b);

        file = find_file(request, text, &rest);
        if (file)
                r = buffer_printf(b, "%s%s", file->path, rest);
        else if (strncmp(text, code, sizeof(code) - 1) == 0)
                r = buffer_printf(b, "%s %s", request->code_path ?: "the program", text + sizeof(code) - 1);
        else
                r = buffer_append_str(b, text);
        return r;
}
