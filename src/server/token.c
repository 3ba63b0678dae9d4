/* SPDX-License-Identifier: MIT */

/* mcp-exec token: makes, lists and removes named tokens.
 *
 * The token itself is shown once and stored nowhere; the file has its digest. The file is replaced as a
 * whole, so that the server never reads half of one, and everything in it that is not ours stays: comments,
 * and lines for users and groups. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "auth/access.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strv.h"
#include "config.h"
#include "exec/size-text.h"
#include "server/command.h"
#include "server/token-file.h"

/* Recognisable, for scanners that look for secrets in repositories. */
#define TOKEN_PREFIX "mcpexec_"
#define TOKEN_CHARS_MIN 24
#define TOKEN_BYTES_MAX 4096

static const char help_text[] =
        "Usage: mcp-exec token add NAME [OPTION…]\n"
        "       mcp-exec token list\n"
        "       mcp-exec token remove NAME\n"
        "\n"
        "Tokens of HTTP clients, in " MCP_EXEC_TOKEN_FILE
        ". add prints a new one, once; what is stored is its\n"
        "digest. The service learns of changes at once.\n"
        "\n"
        "Options:\n"
        "      --delegate      Its holder may name the user it asks for, in X-MCP-User\n"
        "      --parallel N    Programs at the same time\n"
        "      --queue N       Calls that wait\n"
        "      --rate N        Programs a minute\n"
        "      --timeout TIME  Of one program, such as 30s\n"
        "      --memory SIZE   Of one program, such as 128M\n"
        "      --user-parallel N, --user-queue N, --user-rate N\n"
        "                      With --delegate: of each user; the others are of all of them together\n"
        "      --stdin         Take the token from standard input instead of making one\n"
        "      --file PATH     Another file than the service's\n"
        "  -h, --help          Show this help\n";

typedef struct TokenOptions {
        AccessEntry entry;
        const char *file;
        const char *of_add; /* an option that was given and means nothing to the other commands */
        bool from_stdin;
} TokenOptions;

/* A removed token that still works until somebody thinks of a reload is a trap. */
static void reload_service(const TokenFile *f) {
        static const char *const argv[] = { "systemctl", "--quiet", "try-reload-or-restart",
                                            "mcp-exec.service", NULL };
        posix_spawn_file_actions_t actions;
        pid_t pid;
        int status = -1;

        /* Who ignores it hears of no child's end, and whoever started us may have. */
        if (signal(SIGCHLD, SIG_DFL) == SIG_ERR)
                return;
        if (!streq(f->path, MCP_EXEC_TOKEN_FILE) || access("/run/systemd/system", F_OK) < 0)
                return;
        if (posix_spawn_file_actions_init(&actions) != 0)
                return;
        /* Standard output is the token's alone. */
        if (posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
            posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *) (uintptr_t) argv, environ) == 0)
                (void) waitpid(pid, &status, 0);
        (void) posix_spawn_file_actions_destroy(&actions);
        if (status != 0)
                log_warning("The service could not be reloaded; the change is in effect after \"systemctl "
                            "reload mcp-exec.service\"");
}

/* Everything but the line of this token. */
static int copy_without(const TokenFile *f, const char *name, Buffer *b) {
        int r = 0;

        for (const char *line = f->text; *line && r >= 0;) {
                _cleanup_strv_ char **words = NULL;
                _cleanup_free_ char *copy = NULL;
                size_t n = strcspn(line, "\n");

                copy = strndup(line, n);
                if (!copy)
                        return -ENOMEM;
                r = strv_split(copy, &words);
                if (r >= 0 &&
                    !(strv_length(words) >= 2 && streq(words[0], "token") && streq(words[1], name)))
                        r = buffer_printf(b, "%s\n", copy);
                line += line[n] ? n + 1 : n;
        }
        return r;
}

static int make_token(char **ret) {
        char a[RANDOM_HEX_ID_CHARS + 1], b[RANDOM_HEX_ID_CHARS + 1];
        int r;

        r = random_hex_id(a);
        if (r >= 0)
                r = random_hex_id(b);
        if (r >= 0)
                r = str_printf(ret, TOKEN_PREFIX "%s%s", a, b);
        explicit_bzero(a, sizeof(a));
        explicit_bzero(b, sizeof(b));
        return r;
}

/* Cuts the end of the line off. */
static bool is_one_token(char *text) {
        size_t n = strcspn(text, "\r\n");

        if (text[n + strspn(text + n, "\r\n")])
                return false;
        text[n] = 0;
        for (size_t i = 0; i < n; i++)
                if (text[i] <= ' ' || text[i] > '~')
                        return false;
        return n >= TOKEN_CHARS_MIN;
}

static int read_token(char **ret) {
        char *text = NULL;
        size_t n = 0;
        int r;

        r = fd_read_all(STDIN_FILENO, TOKEN_BYTES_MAX, &text, &n);
        if (r < 0 && r != -EFBIG && r != -EBADMSG)
                return token_complain(r, "Cannot read", "standard input"), -EINVAL;
        if (r < 0 || !is_one_token(text)) {
                if (text)
                        explicit_bzero(text, n);
                free(text);
                log_error("A token is one line of at least %d visible ASCII characters, and random: its "
                          "digest must not be worth guessing at",
                          TOKEN_CHARS_MIN);
                return -EINVAL;
        }
        *ret = text;
        return 0;
}

/* Before it is in effect, for one that nobody was told of must not be; and not before that is sure. */
static int show_token(const char *token) {
        errno = 0;
        puts(token);
        if (fflush(stdout) != 0 || ferror(stdout))
                return token_complain(errno > 0 ? -errno : -EIO,
                                      "Nothing was done: cannot write the token to", "standard output");
        if (isatty(STDOUT_FILENO))
                fputs("This is the only time that the token is shown.\n", stderr);
        return COMMAND_OK;
}

/* shown: the token that is told on the way, or NULL. */
static int store(const TokenFile *f, const Buffer *text, const char *shown) {
        _cleanup_(access_freep) Access *after = NULL;
        _cleanup_free_ char *temporary = NULL;
        int r;

        /* Neither we nor the service could read one with an entry too many. */
        if (token_file_parse(f->path, text->n_bytes > 0 ? text->data : "", &after) != COMMAND_OK)
                return COMMAND_FAILED;
        r = token_file_write_beside(f, text, &temporary);
        if (r >= 0 && shown && show_token(shown) != COMMAND_OK) {
                (void) unlinkat(f->dir_fd, temporary, 0);
                return COMMAND_FAILED;
        }
        if (r >= 0)
                r = token_file_put_in_place(f, temporary);
        if (r < 0)
                return token_complain(r, "Cannot write", f->path);
        reload_service(f);
        return COMMAND_OK;
}

static int token_add(const TokenOptions *o) {
        _cleanup_(token_file_done) TokenFile f = { .dir_fd = -EBADF, .lock_fd = -EBADF };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(ACCESS_FILE_BYTES_MAX);
        AccessEntry entry = o->entry;
        char *token = NULL;
        int r;

        r = token_file_open(&f, o->file, /* is_for_change= */ true);
        if (r != COMMAND_OK)
                return r;
        if (access_find(f.access, ACCESS_TOKEN, entry.name)) {
                log_error("There is a token \"%s\" already; remove it first, or choose another name",
                          entry.name);
                return COMMAND_FAILED;
        }
        r = o->from_stdin ? read_token(&token) : make_token(&token);
        if (r < 0) /* what is wrong with that of standard input was said */
                return o->from_stdin ? COMMAND_FAILED :
                                       token_complain(r, "Cannot make a token for", entry.name);
        sha256_hex(token, strlen(token), entry.digest);
        r = copy_without(&f, entry.name, &b);
        if (r >= 0)
                r = access_write_entry(&entry, &b);
        r = r < 0 ? token_complain(r, "Cannot write", f.path) : store(&f, &b, o->from_stdin ? NULL : token);
        explicit_bzero(token, strlen(token));
        free(token);
        return r;
}

static int token_remove(const TokenOptions *o) {
        _cleanup_(token_file_done) TokenFile f = { .dir_fd = -EBADF, .lock_fd = -EBADF };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(ACCESS_FILE_BYTES_MAX);
        int r;

        r = token_file_open(&f, o->file, /* is_for_change= */ true);
        if (r != COMMAND_OK)
                return r;
        if (!access_find(f.access, ACCESS_TOKEN, o->entry.name)) {
                log_error("There is no token \"%s\"", o->entry.name);
                return COMMAND_FAILED;
        }
        r = copy_without(&f, o->entry.name, &b);
        return r < 0 ? token_complain(r, "Cannot write", f.path) : store(&f, &b, NULL);
}

static void print_limits(const AccessEntry *e) {
        uint64_t msec = e->timeout_usec / USEC_PER_MSEC;

        if (msec > 0 && msec % 1000 == 0)
                printf(" timeout=%" PRIu64 "s", msec / 1000);
        else if (msec > 0)
                printf(" timeout=%" PRIu64 "ms", msec);
        if (e->memory_max_bytes > 0)
                printf(" memory=%s", size_text_short(e->memory_max_bytes).text);
        putchar('\n');
}

static int token_list(const TokenOptions *o) {
        _cleanup_(token_file_done) TokenFile f = { .dir_fd = -EBADF, .lock_fd = -EBADF };
        int r;

        r = token_file_open(&f, o->file, /* is_for_change= */ false);
        if (r != COMMAND_OK)
                return r;
        for (size_t i = 0; i < f.access->n_entries; i++) {
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
                AccessEntry e = f.access->entries[i];
                AccessEntry limits = e;

                if (e.kind != ACCESS_TOKEN)
                        continue;
                /* The digest is nobody's business; "proxy" is what such a line begins with. Sizes and times
                 * are for people here. */
                limits.kind = ACCESS_PROXY;
                limits.name[0] = 0;
                limits.timeout_usec = limits.memory_max_bytes = 0;
                if (access_write_entry(&limits, &b) < 0)
                        return log_oom(), COMMAND_FAILED;
                printf("%s%s%.*s", e.name, e.is_delegating ? " delegate" : "",
                       (int) strcspn(b.data + strlen("proxy"), "\n"), b.data + strlen("proxy"));
                print_limits(&e);
        }
        if (f.access->n_tokens == 0)
                log_info("There are no tokens in %s", f.path);
        return COMMAND_OK;
}

/* What access_set_limit() takes. */
static const char* range_of(const char *option) {
        if (streq(option, "timeout"))
                return "a time from 1s on, such as 30s or 5min";
        if (streq(option, "memory"))
                return "a size from 32M on, such as 128M";
        return strstr(option, "queue") ? "a number, 0 to 1000000" : "a number, 1 to 1000000";
}

static int parse_options(int argc, char **argv, TokenOptions *o) {
        enum { OPTION_DELEGATE = 0x100, OPTION_STDIN, OPTION_FILE, OPTION_LIMIT };
        static const struct option table[] = {
                { "parallel", required_argument, NULL, OPTION_LIMIT },
                { "queue", required_argument, NULL, OPTION_LIMIT },
                { "rate", required_argument, NULL, OPTION_LIMIT },
                { "user-parallel", required_argument, NULL, OPTION_LIMIT },
                { "user-queue", required_argument, NULL, OPTION_LIMIT },
                { "user-rate", required_argument, NULL, OPTION_LIMIT },
                { "timeout", required_argument, NULL, OPTION_LIMIT },
                { "memory", required_argument, NULL, OPTION_LIMIT },
                { "delegate", no_argument, NULL, OPTION_DELEGATE },
                { "stdin", no_argument, NULL, OPTION_STDIN },
                { "file", required_argument, NULL, OPTION_FILE },
                { "help", no_argument, NULL, 'h' },
                {},
        };
        CommandLine line = {
                .argc = argc, .argv = argv, .name = "token", .help = help_text, .options = table,
                .has_operands = true,
        };
        int c;

        while ((c = command_next_option(&line)) >= 0) {
                if (c != OPTION_FILE)
                        o->of_add = table[line.option_index].name;
                switch (c) {
                case OPTION_LIMIT:
                        if (access_set_limit(&o->entry, table[line.option_index].name, optarg) < 0)
                                return command_usage_error("token", "\"%s\" is not a value of --%s: %s",
                                                           optarg, table[line.option_index].name,
                                                           range_of(table[line.option_index].name));
                        break;
                case OPTION_DELEGATE:
                        o->entry.is_delegating = true;
                        break;
                case OPTION_STDIN:
                        o->from_stdin = true;
                        break;
                case OPTION_FILE:
                        o->file = optarg;
                        break;
                }
        }
        if (line.status != COMMAND_GOES_ON)
                return line.status;
        if (access_limits_users(&o->entry) && !access_may_limit_users(&o->entry))
                return command_usage_error("token", "--user-… limits need --delegate");
        return COMMAND_GOES_ON;
}

int command_token(int argc, char **argv) {
        TokenOptions o = { .entry.kind = ACCESS_TOKEN, .file = MCP_EXEC_TOKEN_FILE };
        const char *verb;
        bool is_list;
        int n, r;

        r = parse_options(argc, argv, &o);
        if (r != COMMAND_GOES_ON)
                return r;
        verb = optind < argc ? argv[optind] : "";
        n = argc - optind;
        is_list = streq(verb, "list");
        if (!is_list && !streq(verb, "add") && !streq(verb, "remove"))
                return command_usage_error("token", "say what to do: add NAME, list, or remove NAME");
        if (n != (is_list ? 1 : 2))
                return command_usage_error("token", "%s takes %s", verb, is_list ? "no name" : "one name");
        if (o.of_add && !streq(verb, "add"))
                return command_usage_error("token", "--%s is for \"add\" only", o.of_add);
        if (is_list)
                return token_list(&o);
        if (!access_is_token_name(argv[optind + 1]))
                return command_usage_error("token",
                                           "a name is at most %d letters, digits, dots, dashes and "
                                           "underscores, and begins with neither dot nor dash",
                                           ACCESS_NAME_CHARS_MAX);
        (void) snprintf(o.entry.name, sizeof(o.entry.name), "%s", argv[optind + 1]);
        return streq(verb, "add") ? token_add(&o) : token_remove(&o);
}
