/* SPDX-License-Identifier: MIT */

/* The client of `mcp-exec run`.
 *
 * The call asks by _meta for notifications with the raw output, so bytes come through as the program wrote
 * them, and live. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/buffer.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/macro.h"
#include "exec/size-text.h"
#include "json/json.h"
#include "server/client-call.h"
#include "server/command.h"
#include "server/file-saver.h"
#include "server/out-queue.h"
#include "server/run-client.h"
#include "transport/transport.h"

/* One line of the server: a reply of at most 1 MB, or one piece of output. */
#define LINE_BYTES_MAX_CLIENT (16 * MIB)
/* Output that a slow reader of ours has not taken yet; beyond it we stop reading from the server. */
#define OUTPUT_BYTES_MAX (128 * MIB)

#define FILES_NAMED_MAX 5

enum { POLL_SERVER, POLL_STDOUT, POLL_STDERR, POLL_SIGNALS, _POLL_MAX };

typedef struct RunClient {
        const RunRequest *request;
        int fd, signal_fd;
        OutQueue to_server, out, err;
        Buffer line;
        size_t n_scanned;  /* of line, known to hold no newline */
        bool has_lost_stderr;
        FileSaver saver;
        bool has_lost_file; /* not all that should be saved was */
        int exit_status;   /* < 0: no end in sight */
} RunClient;

/* ---- What the server says ---- */

/* Behind what the program wrote to the same place. */
static void say(RunClient *c, const char *text) {
        static const char prefix[] = "mcp-exec: ";

        if (c->has_lost_stderr)
                return;
        /* Without memory for the reason, the exit status has to do. */
        if (out_queue_push(&c->err, prefix, strlen(prefix)) >= 0 &&
            out_queue_push(&c->err, text, strlen(text)) >= 0)
                (void) out_queue_push(&c->err, "\n", 1);
}

static void fail(RunClient *c, const char *text) {
        say(c, text);
        c->exit_status = RUN_EXIT_INFRASTRUCTURE;
}

static void take_output(RunClient *c, const JsonValue *params) {
        _cleanup_buffer_ Buffer bytes = BUFFER_INIT(0);
        const char *data;
        int64_t stream;
        size_t n_bytes;
        int r;

        if (!json_get_integer(json_member(params, "stream"), &stream) ||
            !json_get_string(json_member(params, "data"), &data, &n_bytes) || (stream != 1 && stream != 2) ||
            base64_decode(data, n_bytes, &bytes) < 0) {
                fail(c, "The server sent output that cannot be read");
                return;
        }
        if (stream == 2 && c->has_lost_stderr)
                return;
        r = out_queue_push(stream == 1 ? &c->out : &c->err, bytes.data, bytes.n_bytes);
        if (r < 0)
                fail(c, "The program's output does not fit into memory");
}

static void refuse_file(RunClient *c, const char *path, const char *reason) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        c->has_lost_file = true;
        if (buffer_printf(&b, "%s was not saved: %s", file_saver_accepts(path) ? path : "A file",
                          reason) >= 0)
                say(c, b.data);
}

static void take_file(RunClient *c, const JsonValue *params) {
        _cleanup_buffer_ Buffer bytes = BUFFER_INIT(0);
        const char *path, *data;
        int64_t n_total;
        size_t n_chars;
        int r;

        if (c->saver.dir_fd < 0)
                return;
        if (!json_get_string(json_member(params, "path"), &path, NULL) ||
            !json_get_integer(json_member(params, "bytes"), &n_total) || n_total < 0 ||
            !json_get_string(json_member(params, "data"), &data, &n_chars) ||
            base64_decode(data, n_chars, &bytes) < 0) {
                fail(c, "The server sent something that is not MCP");
                return;
        }
        r = file_saver_take(&c->saver, path, (uint64_t) n_total, bytes.data, bytes.n_bytes);
        if (r < 0)
                refuse_file(c, path, r == -EINVAL ? "its name is not one to be written to" :
                                     r == -EPERM ? "it is hidden, and the directory was not empty" :
                                                   strerror(-r));
}

/* Where nothing is saved, a person should know what was there. */
static void name_files(RunClient *c, const JsonValue *files) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        size_t n = json_length(files), n_named = 0;
        const char *path;
        int r = 0;

        for (size_t i = 0; i < n && n_named < FILES_NAMED_MAX && r >= 0; i++)
                if (json_get_string(json_member(json_element(files, i), "path"), &path, NULL) &&
                    file_saver_accepts(path))
                        r = buffer_printf(&b, "%s%s", n_named++ > 0 ? ", " : "", path);
        if (r >= 0 && n > n_named)
                r = buffer_printf(&b, "%s%zu %s", n_named > 0 ? " and " : "", n - n_named,
                                  n_named > 0 ? "more" : "files");
        if (r >= 0)
                r = buffer_append_str(&b, " left in the working directory (--output-dir saves such files)");
        if (r >= 0)
                say(c, b.data);
}

static void take_files(RunClient *c, const JsonValue *files, const JsonValue *note) {
        const char *path, *text;

        if (c->saver.dir_fd < 0 && json_length(files) > 0)
                name_files(c, files);
        for (size_t i = 0; c->saver.dir_fd >= 0 && i < json_length(files); i++) {
                const JsonValue *file = json_element(files, i);

                if (json_get_string(json_member(file, "path"), &path, NULL) &&
                    !file_saver_has_seen(&c->saver, path))
                        refuse_file(c, path, json_get_string(json_member(file, "reason"), &text, NULL) ?
                                                     text : "The server did not send it.");
        }
        if (json_get_string(note, &text, NULL)) {
                c->has_lost_file = c->has_lost_file || c->saver.dir_fd >= 0;
                say(c, text);
        }
}

/* Making packages ready may take minutes: a person should know. What the program does shows itself. */
static void take_progress(RunClient *c, const JsonValue *params) {
        const char *s;

        if (json_get_string(json_member(params, "message"), &s, NULL) && strncmp(s, "preparing", 9) == 0)
                say(c, s);
}

static void take_note(RunClient *c, const JsonValue *params) {
        const char *text;

        if (json_get_string(json_member(params, "message"), &text, NULL))
                say(c, text);
}

static int exit_status_of(const char *status, int64_t exit_code) {
        if (streq(status, "ok"))
                return 0;
        if (streq(status, "error") || streq(status, "signal")) /* 128 plus its number */
                return (int) (exit_code & 0xff);
        if (streq(status, "timeout"))
                return RUN_EXIT_TIMEOUT;
        if (streq(status, "oom") || streq(status, "output_limit"))
                return RUN_EXIT_OOM;
        return RUN_EXIT_INFRASTRUCTURE;
}

/* A member of a raw object, parsed. NULL when it is absent or carries text that cannot be kept. */
static JsonValue* parse_member(const char *object, size_t n_bytes, const char *name) {
        _cleanup_json_ JsonValue *v = NULL;
        const char *raw;
        size_t n_raw;

        if (json_raw_member(object, n_bytes, name, &raw, &n_raw) <= 0 || json_parse(raw, n_raw, &v) != 0)
                return NULL;
        return TAKE_PTR(v);
}

static void take_refusal(RunClient *c, const char *result, size_t n_result) {
        _cleanup_json_ JsonValue *content = parse_member(result, n_result, "content");
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        const char *text;

        if (!json_get_string(json_member(json_element(content, 0), "text"), &text, NULL))
                text = "The server gave no reason";
        /* Without memory the server's own words have to do. */
        fail(c, run_request_explain(c->request, text, &b) >= 0 ? b.data : text);
}

/* A program that ended by itself has said what it had to say, and its exit status, the first sentence, is
 * ours too. What follows is the cause, where the server knows one: no network, a missing module. */
static const char* worth_saying(const char *status, const char *message) {
        const char *cause;

        if (!streq(status, "error"))
                return streq(status, "ok") ? NULL : message;
        cause = strstr(message, ". ");
        return cause ? cause + 2 : NULL;
}

/* What the program printed is in the result once more, perhaps with a zero byte, which json_parse() refuses.
 * So only the members that are needed are parsed. */
static void take_result(RunClient *c, const char *result, size_t n_result) {
        _cleanup_json_ JsonValue *is_error = parse_member(result, n_result, "isError");
        _cleanup_json_ JsonValue *status = NULL, *code = NULL, *message = NULL, *hints = NULL, *files = NULL,
                                 *files_note = NULL;
        int64_t exit_code = RUN_EXIT_INFRASTRUCTURE;
        const char *s, *word, *text;
        bool has_failed = false;
        size_t n;

        (void) json_get_bool(is_error, &has_failed);
        if (!has_failed && json_raw_member(result, n_result, "structuredContent", &s, &n) > 0) {
                status = parse_member(s, n, "status");
                code = parse_member(s, n, "exit_code");
                message = parse_member(s, n, "message");
                hints = parse_member(s, n, "hints");
                files = parse_member(s, n, "files");
                files_note = parse_member(s, n, "files_note");
        }
        if (!json_get_string(status, &word, NULL)) {
                take_refusal(c, result, n_result);
                return;
        }
        (void) json_get_integer(code, &exit_code);

        if (json_get_string(message, &text, NULL)) {
                text = worth_saying(word, text);
                if (text)
                        say(c, text);
        }
        for (size_t i = 0; i < json_length(hints); i++)
                if (json_get_string(json_element(hints, i), &text, NULL))
                        say(c, text);

        take_files(c, files, files_note);
        c->exit_status = exit_status_of(word, exit_code);
        if (c->exit_status == 0 && c->has_lost_file)
                c->exit_status = RUN_EXIT_INFRASTRUCTURE;
}

static void take_line(RunClient *c, const char *line, size_t n_bytes) {
        _cleanup_json_ JsonValue *message = NULL, *id = NULL;
        const JsonValue *error;
        const char *method, *text, *result;
        int64_t number;
        size_t n_result;
        int r;

        r = json_parse(line, n_bytes, &message);
        if (r != 0 && r != JSON_E_TEXT) {
                fail(c, "The server sent something that is not MCP");
                return;
        }
        if (json_get_string(json_member(message, "method"), &method, NULL)) {
                if (streq(method, "notifications/mcp-exec/output"))
                        take_output(c, json_member(message, "params"));
                else if (streq(method, "notifications/progress"))
                        take_progress(c, json_member(message, "params"));
                else if (streq(method, "notifications/mcp-exec/note"))
                        take_note(c, json_member(message, "params"));
                else if (streq(method, "notifications/mcp-exec/file"))
                        take_file(c, json_member(message, "params"));
                return;
        }

        error = json_member(message, "error");
        if (error) {
                fail(c, json_get_string(json_member(error, "message"), &text, NULL) ?
                                text :
                                "The server refused the call");
                return;
        }
        id = parse_member(line, n_bytes, "id");
        if (json_get_integer(id, &number) && number == CLIENT_CALL_ID &&
            json_raw_member(line, n_bytes, "result", &result, &n_result) > 0)
                take_result(c, result, n_result);
}

static void take_lines(RunClient *c) {
        size_t start = 0;

        while (c->exit_status < 0) {
                const char *end = memchr(c->line.data + c->n_scanned, '\n', c->line.n_bytes - c->n_scanned);
                if (!end) {
                        c->n_scanned = c->line.n_bytes;
                        break;
                }
                take_line(c, c->line.data + start, (size_t) (end - c->line.data) - start);
                start = (size_t) (end - c->line.data) + 1;
                c->n_scanned = start;
        }
        buffer_consume(&c->line, start);
        c->n_scanned -= start;
}

/* ---- The loop ---- */

static bool has_room(const RunClient *c) {
        return out_queue_n_bytes(&c->out) < OUTPUT_BYTES_MAX / 2 &&
               out_queue_n_bytes(&c->err) < OUTPUT_BYTES_MAX / 2;
}

static void read_server(RunClient *c) {
        void *room;
        ssize_t n;

        if (buffer_reserve(&c->line, 64 * KIB, &room) < 0) {
                fail(c, "The server's reply does not fit into memory");
                return;
        }
        n = recv(c->fd, room, 64 * KIB, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                fail(c, c->request->is_server_own ?
                                "The server that was started for this ended before it told how the program "
                                "ended" :
                                "The server ended before it told how the program ended (see \"journalctl -u "
                                "mcp-exec\")");
                return;
        }
        buffer_commit(&c->line, (size_t) n);
        if (c->line.data)
                take_lines(c);
}

static void handle_signal(RunClient *c) {
        struct signalfd_siginfo si;

        if (read(c->signal_fd, &si, sizeof(si)) == (ssize_t) sizeof(si))
                c->exit_status = RUN_EXIT_SIGNAL + (int) si.ssi_signo;
}

/* Returns 0, -EPIPE when the output has no reader any more, or another -errno. */
static int pass_on(OutQueue *q, const struct pollfd *p) {
        if (p->revents & POLLOUT)
                return out_queue_flush(q);
        return p->revents & (POLLERR | POLLHUP | POLLNVAL) ? -EPIPE : 0;
}

static void output_lost(RunClient *c, int error) {
        /* Nobody reads what the program prints: end it, as SIGPIPE would end it in a pipeline. */
        c->exit_status = RUN_EXIT_SIGNAL + SIGPIPE;
        if (error == -EPIPE)
                return;
        c->exit_status = RUN_EXIT_INFRASTRUCTURE;
        (void) log_error_errno(error, "Cannot write to standard output, so the program was ended");
}

/* Returns 0 to go on, 1 at the end. */
static int turn(RunClient *c) {
        bool has_ended = c->exit_status >= 0;
        struct pollfd fds[_POLL_MAX] = {
                [POLL_SERVER] = { .fd = has_ended || !has_room(c) ? -1 : c->fd,
                                  .events = (short) (POLLIN | out_queue_events(&c->to_server)) },
                [POLL_STDOUT] = { .fd = c->out.fd, .events = out_queue_events(&c->out) },
                [POLL_STDERR] = { .fd = c->has_lost_stderr ? -1 : c->err.fd,
                                  .events = out_queue_events(&c->err) },
                [POLL_SIGNALS] = { .fd = c->signal_fd, .events = POLLIN },
        };
        int r;

        if (has_ended && out_queue_n_bytes(&c->out) == 0 && out_queue_n_bytes(&c->err) == 0)
                return 1;
        if (poll(fds, ELEMENTSOF(fds), -1) < 0)
                return errno == EINTR ? 0 : -errno;

        if (fds[POLL_SIGNALS].revents) {
                handle_signal(c);
                return 1;
        }
        r = pass_on(&c->out, &fds[POLL_STDOUT]);
        if (r < 0) {
                output_lost(c, r);
                return 1;
        }
        if (pass_on(&c->err, &fds[POLL_STDERR]) < 0) {
                out_queue_done(&c->err);
                c->has_lost_stderr = true;
        }
        if (fds[POLL_SERVER].revents & POLLOUT)
                (void) out_queue_flush(&c->to_server); /* a server that is gone shows in the next read */
        if (fds[POLL_SERVER].revents & (POLLIN | POLLHUP | POLLERR))
                read_server(c);
        return 0;
}

static int send_messages(RunClient *c) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), problem = BUFFER_INIT(0);
        int r;

        r = run_request_write(c->request, &b);
        if (r == -EMSGSIZE) {
                r = buffer_printf(&problem, "The program, its input and its files are %s as one message, in "
                                            "which a file takes a third more than its size; the most that "
                                            "can be sent is %s",
                                  size_text_bytes((b.n_bytes + MIB - 1) / MIB * MIB).text,
                                  size_text_bytes(LINE_BYTES_MAX).text);
                if (r >= 0)
                        fail(c, problem.data);
                return r;
        }
        return r < 0 ? r : out_queue_push(&c->to_server, b.data, b.n_bytes);
}

int run_client(int fd, const RunRequest *request) {
        _cleanup_close_ int signal_fd = -EBADF;
        RunClient c = {
                .request = request,
                .fd = fd,
                .exit_status = -1,
                .line = BUFFER_INIT(LINE_BYTES_MAX_CLIENT),
        };
        int r;

        assert(fd >= 0);
        assert(request);

        file_saver_init(&c.saver, request->output_dir_fd);
        signal_fd = command_signal_fd();
        if (signal_fd < 0) {
                (void) log_error_errno(signal_fd, "Cannot watch for signals");
                return RUN_EXIT_INFRASTRUCTURE;
        }
        c.signal_fd = signal_fd;
        out_queue_init(&c.to_server, fd, 0);
        out_queue_init(&c.out, STDOUT_FILENO, OUTPUT_BYTES_MAX);
        out_queue_init(&c.err, STDERR_FILENO, OUTPUT_BYTES_MAX);

        r = send_messages(&c);
        while (r == 0)
                r = turn(&c);
        if (r < 0) {
                (void) log_error_errno(r, "Cannot speak with the server");
                c.exit_status = RUN_EXIT_INFRASTRUCTURE;
        }

        out_queue_done(&c.to_server);
        out_queue_done(&c.out);
        out_queue_done(&c.err);
        buffer_done(&c.line);
        file_saver_done(&c.saver);
        return c.exit_status;
}
