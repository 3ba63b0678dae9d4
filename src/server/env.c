/* SPDX-License-Identifier: MIT */

/* mcp-exec env: sets of packages, for administrators. All of it is done by the service, which alone knows
 * what is in use: to prepare is to run an empty program that names the packages, so everybody may who may
 * run programs; to list and to remove is for root. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/strv.h"
#include "exec/size-text.h"
#include "server/command.h"
#include "server/env-file.h"
#include "server/one-call.h"
#include "server/server-choice.h"

#define NAME_CHARS 64       /* of a set */
#define NAME_CHARS_SHOWN 16 /* enough to tell them apart, and to name one */

static const char help_text[] =
        "Usage: mcp-exec env list\n"
        "       mcp-exec env prepare FILE…\n"
        "       mcp-exec env remove NAME…\n"
        "\n"
        "Sets of packages, which scripts that name packages run with.\n"
        "\n"
        "Commands:\n"
        "  list      Show every set: its size, its last use, what it was asked for (root only)\n"
        "  prepare   Make the set that a script (with a \"# /// script\" block) or a file of requirements\n"
        "            (one a line) names, so that the first run with it need not wait; the script is not "
        "run\n"
        "  remove    Remove sets by their names or the beginnings of them (root only)\n"
        "\n"
        "Options:\n"
        "      --json                  list: a JSON array\n"
        SERVER_CHOICE_HELP
        "  -h, --help                  Show this help\n"
        "\n"
        "Exit status: 0 when everything was done, 1 otherwise.\n";

typedef struct EnvOptions {
        ServerChoice server;
        bool is_json;
} EnvOptions;

/* ---- Asking the server ---- */

/* Each line of it is one of ours. */
static int say_error(const char *subject, const char *error) {
        for (const char *line = error; *line;) {
                size_t n = strcspn(line, "\n");

                log_error("%s%s%.*s", subject ?: "", subject ? ": " : "", (int) n, line);
                line += n + (line[n] == '\n');
        }
        return -EREMOTEIO;
}

/* Returns 0 with the result, or -errno with everything said. */
static int ask(const EnvOptions *o, const OneCall *call, const char *subject, JsonValue **ret) {
        _cleanup_free_ char *reason = NULL;
        _cleanup_close_ int fd = -EBADF;
        const char *error;
        int r;

        fd = server_choice_connect(&o->server, /* is_verbose= */ false, &reason);
        if (fd < 0)
                return fd;
        if (reason)
                log_info("Using this user's own service manager: %s", reason);
        r = one_call(fd, call, ret);
        if (r < 0)
                return log_error_errno(r, "Cannot speak with the server");
        if (r == 0) {
                log_error(server_choice_is_own(&o->server, reason) ?
                                  "The server that was started for this gave no answer" :
                                  "The server gave no answer (see \"journalctl -u mcp-exec\")");
                return -EPROTO;
        }
        error = client_call_error(*ret);
        if (error)
                return say_error(subject, error);
        return 0;
}

/* ---- list ---- */

static int ask_sets(const EnvOptions *o, JsonValue **ret) {
        return ask(o, &(const OneCall) {
                .call = {
                        .client = "mcp-exec env",
                        .tool = "mcp-exec.sets",
                        .write_arguments = client_call_no_arguments,
                },
        }, NULL, ret);
}

static const JsonValue* sets_of(const JsonValue *reply) {
        return json_member(json_member(json_member(reply, "result"), "structuredContent"), "sets");
}

/* What a set says of itself was written by programs that read strangers' files: no control characters. */
static void print_words(const char *s) {
        for (; *s; s++)
                putchar(*s >= ' ' && *s <= '~' ? *s : '?');
}

static void print_list(const JsonValue *l) {
        const char *s;

        for (size_t i = 0; i < json_length(l); i++)
                if (json_get_string(json_element(l, i), &s, NULL)) {
                        putchar(' ');
                        print_words(s);
                }
}

static int64_t number_of(const JsonValue *set, const char *name) {
        int64_t n = 0;

        return json_get_integer(json_member(set, name), &n) && n > 0 ? n : 0;
}

static void print_set(const JsonValue *set) {
        time_t used = (time_t) number_of(set, "used_s");
        const char *name = "", *python = "";
        char when[32] = "";
        struct tm tm;

        (void) json_get_string(json_member(set, "name"), &name, NULL);
        (void) json_get_string(json_member(set, "python"), &python, NULL);
        if (localtime_r(&used, &tm))
                (void) strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
        printf("%-*.*s  ", NAME_CHARS_SHOWN, NAME_CHARS_SHOWN, name);
        print_words(python);
        printf("  %10s  %s  %3" PRIi64 " ", size_text_short((uint64_t) number_of(set, "size_bytes")).text,
               when, number_of(set, "runs"));
        print_list(json_member(set, "requirements"));
        putchar('\n');
}

static int print_json(const JsonValue *sets) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        int r;

        json_value(&w, sets);
        r = json_writer_finish(&w);
        if (r < 0)
                return log_error_errno(r, "Cannot print the list");
        puts(b.data);
        return 0;
}

static int list_sets(const EnvOptions *o) {
        _cleanup_json_ JsonValue *reply = NULL;
        const JsonValue *sets;
        const char *problem;

        if (ask_sets(o, &reply) < 0)
                return COMMAND_FAILED;
        sets = sets_of(reply);
        if (o->is_json)
                return print_json(sets) < 0 ? COMMAND_FAILED : COMMAND_OK;
        if (json_get_string(json_member(json_member(json_member(reply, "result"), "structuredContent"),
                                        "problem"), &problem, NULL) && *problem)
                log_notice("No new sets can be made: %s", problem);
        if (json_length(sets) == 0)
                log_info("There are no sets of packages");
        else
                printf("%-*s  %s\n", NAME_CHARS_SHOWN, "NAME",
                       "PYTHON        SIZE  LAST USE          RUNS  ASKED FOR");
        for (size_t i = 0; i < json_length(sets); i++)
                print_set(json_element(sets, i));
        return COMMAND_OK;
}

/* ---- remove ---- */

static int write_name(JsonWriter *w, const void *userdata) {
        json_begin_object(w);
        json_key(w, "remove");
        json_string(w, userdata);
        json_end_object(w);
        return w->error;
}

/* The one set whose name begins so. */
static const char* find_set(const JsonValue *sets, const char *beginning) {
        const char *found = NULL, *name;

        for (size_t i = 0; i < json_length(sets); i++) {
                if (!json_get_string(json_member(json_element(sets, i), "name"), &name, NULL) ||
                    strncmp(name, beginning, strlen(beginning)) != 0)
                        continue;
                if (found) {
                        log_error("%s: the names of several sets begin like this", beginning);
                        return NULL;
                }
                found = name;
        }
        if (!found)
                log_error("%s: there is no such set", beginning);
        return found;
}

static int remove_sets(const EnvOptions *o, char *const *names) {
        _cleanup_json_ JsonValue *sets = NULL;
        int status = COMMAND_OK;

        if (ask_sets(o, &sets) < 0)
                return COMMAND_FAILED;
        STRV_FOREACH(beginning, names) {
                _cleanup_json_ JsonValue *reply = NULL;
                const char *name = find_set(sets_of(sets), *beginning);

                if (!name || ask(o, &(const OneCall) {
                        .call = {
                                .client = "mcp-exec env",
                                .tool = "mcp-exec.sets",
                                .write_arguments = write_name,
                                .userdata = name,
                        },
                }, *beginning, &reply) < 0)
                        status = COMMAND_FAILED;
        }
        return status;
}

/* ---- prepare ---- */

static int write_script(JsonWriter *w, const void *userdata) {
        const EnvFile *f = userdata;

        json_begin_object(w);
        json_key(w, "script");
        json_string_n(w, f->script, strlen(f->script));
        if (f->lines) {
                json_key(w, "requirements");
                json_begin_array(w);
                STRV_FOREACH(s, f->requirements)
                        json_string(w, *s);
                json_end_array(w);
                json_key(w, "lines");
                json_begin_array(w);
                for (size_t i = 0; i < strv_length(f->requirements); i++)
                        json_unsigned(w, f->lines[i]);
                json_end_array(w);
        }
        json_end_object(w);
        return w->error;
}

static void on_progress(const char *message) {
        log_info("%s", message);
}

static int prepare_file(const EnvOptions *o, const char *path) {
        _cleanup_json_ JsonValue *reply = NULL;
        _cleanup_free_ char *reason = NULL;
        _cleanup_(env_file_done) EnvFile f = {};
        const JsonValue *s, *hints;
        const char *status, *message;
        int r;

        r = env_file_read(path, &f, &reason);
        if (r == -EBADMSG && reason) {
                log_error("%s", reason);
                return r;
        }
        if (r < 0)
                return log_error_errno(r, "%s: cannot read it", path);
        if (!f.has_packages) {
                log_error("%s: it names no packages", path);
                return -ENODATA;
        }

        r = ask(o, &(const OneCall) {
                .call = {
                        .client = "mcp-exec env",
                        .tool = "mcp-exec.prepare",
                        .write_arguments = write_script,
                        .userdata = &f,
                        .wants_progress = true,
                },
                .on_progress = on_progress,
        }, path, &reply);
        if (r < 0)
                return r;
        s = json_member(json_member(reply, "result"), "structuredContent");
        hints = json_member(s, "hints");
        for (size_t i = 0; i < json_length(hints); i++)
                if (json_get_string(json_element(hints, i), &message, NULL))
                        log_notice("%s: %s", path, message);
        if (json_get_string(json_member(s, "status"), &status, NULL) && streq(status, "ok"))
                return 0;
        log_error("%s: %s", path,
                  json_get_string(json_member(s, "message"), &message, NULL) ? message : "it failed");
        return -EREMOTEIO;
}

static int prepare_files(const EnvOptions *o, char *const *paths) {
        int status = COMMAND_OK;

        STRV_FOREACH(path, paths)
                if (prepare_file(o, *path) < 0)
                        status = COMMAND_FAILED;
                else
                        log_info("%s: ready", *path);
        return status;
}

/* ---- The command line ---- */

static int dispatch(const EnvOptions *o, char **arguments) {
        const char *command = arguments[0];

        if (!command)
                return command_usage_error("env", "say list, prepare or remove");
        arguments++;
        if (o->is_json && !streq(command, "list"))
                return command_usage_error("env", "--json belongs to list");
        if (streq(command, "list"))
                return arguments[0] ?
                               command_usage_error("env", "unexpected argument \"%s\"", arguments[0]) :
                               list_sets(o);
        if (streq(command, "prepare"))
                return arguments[0] ? prepare_files(o, arguments) :
                                      command_usage_error("env", "prepare needs a file");
        if (streq(command, "remove")) {
                STRV_FOREACH(name, arguments)
                        if (strlen(*name) < 4 || strlen(*name) > NAME_CHARS ||
                            strspn(*name, "0123456789abcdef") != strlen(*name))
                                return command_usage_error("env",
                                                           "\"%s\" is not the name of a set, nor 4 or "
                                                           "more of its first letters",
                                                           *name);
                return arguments[0] ? remove_sets(o, arguments) :
                                      command_usage_error("env", "remove needs a name");
        }
        return command_usage_error("env", "unknown command \"%s\"", command);
}

int command_env(int argc, char **argv) {
        enum { OPTION_JSON = 0x100 };
        static const struct option table[] = {
                { "json", no_argument, NULL, OPTION_JSON },
                { "help", no_argument, NULL, 'h'         },
                SERVER_CHOICE_OPTIONS,
                {},
        };
        CommandLine line = {
                .argc = argc, .argv = argv, .name = "env", .help = help_text, .options = table,
                .has_operands = true,
        };
        EnvOptions o = { .server = SERVER_CHOICE_INIT };
        int c;

        while ((c = command_next_option(&line)) >= 0)
                if (c == OPTION_JSON)
                        o.is_json = true;
                else
                        (void) server_choice_take(&o.server, c, optarg);
        if (line.status != COMMAND_GOES_ON)
                return line.status;
        return dispatch(&o, argv + optind);
}
