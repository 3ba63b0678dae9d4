/* SPDX-License-Identifier: MIT */

/* Log: where a line goes and what it may contain. Messages may quote names from clients and files, so every
 * control character, also those that end a line or turn the direction of writing, and every byte that is no
 * valid UTF-8 is replaced: nobody but us begins a new line in the log. */

#include "base/log.h"

#define SD_JOURNAL_SUPPRESS_LOCATION /* it would always be this file */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/utf8.h"

#define LINE_BYTES_MAX 2048 /* below PIPE_BUF: one write(2), never interleaved with another process's */
#define FIELDS_MAX 64
#define STDERR_WAIT_MSEC 100

/* The one mutable global of the room: set once by log_open(). */
static struct {
        const char *name;
        int max_level;
        bool is_journal;
} log_state = { .name = "mcp-exec", .max_level = LOG_INFO };

/* JOURNAL_STREAM is "DEVICE:INODE" of the socket that systemd made our stderr. It is inherited by programs
 * whose stderr was redirected since, hence the comparison. */
static bool stderr_is_journal(void) {
        const char *value = getenv("JOURNAL_STREAM");
        char device_text[32];
        uint64_t device, inode;
        const char *colon;
        struct stat st;

        if (!value || fstat(STDERR_FILENO, &st) < 0)
                return false;
        colon = strchr(value, ':');
        if (!colon || (size_t) (colon - value) >= sizeof(device_text))
                return false;
        memcpy(device_text, value, (size_t) (colon - value));
        device_text[colon - value] = 0;
        if (parse_uint64(device_text, &device) < 0 || parse_uint64(colon + 1, &inode) < 0)
                return false;
        return device == (uint64_t) st.st_dev && inode == (uint64_t) st.st_ino;
}

void log_open(const char *name, int max_level) {
        assert(name);

        log_state.name = name;
        log_state.max_level = max_level;
        log_state.is_journal = stderr_is_journal();
}

const char* log_place(const char *in_journal) {
        assert(in_journal);
        return log_state.is_journal ? in_journal : "what the server writes to its standard error";
}

int log_level_from_string(const char *s) {
        static const struct {
                const char *name;
                int level;
        } levels[] = {
                { "debug", LOG_DEBUG },     { "info", LOG_INFO }, { "notice", LOG_NOTICE },
                { "warning", LOG_WARNING }, { "err", LOG_ERR },   { "error", LOG_ERR },
        };

        assert(s);

        for (size_t i = 0; i < ELEMENTSOF(levels); i++)
                if (streq(s, levels[i].name))
                        return levels[i].level;
        return -EINVAL;
}

static void make_printable(char *line, size_t n_bytes) {
        for (size_t i = 0; i < n_bytes;) {
                size_t n = utf8_sequence(line + i, n_bytes - i), step = n > 0 ? n : 1;

                if (n == 0 || !utf8_is_plain(line + i, n))
                        memset(line + i, '?', step);
                i += step;
        }
}

/* Drops the line rather than wait for a reader that may never come: stderr is a client's pipe on stdio, and
 * some clients do not read it. */
static void write_stderr(const char *text, size_t n_bytes) {
        struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
        char line[LINE_BYTES_MAX + 128];
        int n;

        n = snprintf(line, sizeof(line), "%s: %.*s\n", log_state.name, (int) n_bytes, text);
        if (n < 0)
                return;
        if ((size_t) n >= sizeof(line)) {
                n = sizeof(line) - 1;
                line[n - 1] = '\n';
        }
        if (send(STDERR_FILENO, line, (size_t) n, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || errno != ENOTSOCK)
                return;
        /* A pipe that polls writable takes PIPE_BUF bytes without blocking. */
        if (poll(&p, 1, STDERR_WAIT_MSEC) == 1 && (p.revents & POLLOUT)) {
                ssize_t written = write(STDERR_FILENO, line, (size_t) n);

                (void) written; /* there is nowhere left to complain */
        }
}

static void log_line(int level, const char *text, size_t n_bytes) {
        char message[sizeof("MESSAGE=") + LINE_BYTES_MAX], priority[] = "PRIORITY=0", identifier[128];
        int n_message, n_identifier;

        if (log_state.is_journal) {
                n_message = snprintf(message, sizeof(message), "MESSAGE=%.*s", (int) n_bytes, text);
                n_identifier =
                        snprintf(identifier, sizeof(identifier), "SYSLOG_IDENTIFIER=%s", log_state.name);
                priority[sizeof(priority) - 2] = (char) ('0' + (level & LOG_PRIMASK));
                if (n_message > 0 && n_identifier > 0 && (size_t) n_identifier < sizeof(identifier)) {
                        const struct iovec iov[] = {
                                { message, (size_t) n_message },
                                { priority, sizeof(priority) - 1 },
                                { identifier, (size_t) n_identifier },
                        };

                        if (sd_journal_sendv(iov, ELEMENTSOF(iov)) >= 0)
                                return;
                }
        }
        write_stderr(text, n_bytes);
}

int log_full(int level, int error, const char *format, ...) {
        char line[LINE_BYTES_MAX];
        int saved_errno = errno, n;
        const char *description;
        size_t n_bytes;
        va_list ap;

        assert(format);

        if (error < 0)
                error = -error;
        if (level > log_state.max_level)
                return -error;

        va_start(ap, format);
        n = vsnprintf(line, sizeof(line), format, ap);
        va_end(ap);
        n_bytes = n < 0 ? 0 : MIN_OF((size_t) n, sizeof(line) - 1);
        if (error != 0) {
                description = strerrordesc_np(error);
                n = snprintf(line + n_bytes, sizeof(line) - n_bytes, ": %s",
                             description ? description : "Unknown error");
                if (n > 0)
                        n_bytes = MIN_OF(n_bytes + (size_t) n, sizeof(line) - 1);
        }
        make_printable(line, n_bytes);
        log_line(level, line, n_bytes);
        errno = saved_errno;
        return -error;
}

int log_struct(int level, const char *const fields[], size_t n_fields) {
        static const char message_prefix[] = "MESSAGE=";
        char priority[] = "PRIORITY=0", identifier[128];
        struct iovec iov[FIELDS_MAX + 2];
        size_t n = 0;
        int r;

        assert(fields || n_fields == 0);

        if (n_fields > FIELDS_MAX)
                return -E2BIG;
        if (level > log_state.max_level)
                return 0;

        if (log_state.is_journal) {
                /* sd_journal_sendv() only reads what the vectors point at, whatever their type says. */
                for (size_t i = 0; i < n_fields; i++)
                        iov[n++] = (struct iovec) { (void*) (uintptr_t) fields[i], strlen(fields[i]) };
                priority[sizeof(priority) - 2] = (char) ('0' + (level & LOG_PRIMASK));
                iov[n++] = (struct iovec) { priority, sizeof(priority) - 1 };
                r = snprintf(identifier, sizeof(identifier), "SYSLOG_IDENTIFIER=%s", log_state.name);
                if (r > 0)
                        iov[n++] = (struct iovec) { identifier, MIN_OF((size_t) r, sizeof(identifier) - 1) };
                return sd_journal_sendv(iov, (int) n);
        }

        for (size_t i = 0; i < n_fields; i++)
                if (strncmp(fields[i], message_prefix, strlen(message_prefix)) == 0)
                        (void) log_full(level, 0, "%s", fields[i] + strlen(message_prefix));
        return 0;
}
