/* SPDX-License-Identifier: MIT */

#include "exec/hints.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

#include "base/macro.h"
#include "base/strv.h"
#include "exec/size-text.h"

/* A traceback with its source lines is seldom longer than half of this; the other half is the stream's begin. */
#define CONTEXT_CHARS_MAX 16000
#define MODULE_CHARS_MAX 64

static bool line_has(const char *line, const char *const words[]) {
        for (; *words; words++)
                if (strstr(line, *words))
                        return true;
        return false;
}

static const char *const module_words[] = { "No module named ", "Missing optional dependency ",
                                            "No matching distribution found for ", NULL };

static const char *const network_words[] = {
        "Address family not supported by protocol", "Network is unreachable", "Temporary failure in name resolution",
        "Name or service not known", "No address associated with hostname", "Could not resolve host",
        "socket.gaierror", "urllib.error.URLError", "urlopen error", "ConnectionError:", "ConnectionRefusedError",
        "ConnectTimeout", "httpx.ConnectError", "httpcore.ConnectError", "ClientConnectorError", "ClientConnectorDNSError",
        "MaxRetryError", "NewConnectionError", "NameResolutionError", "ConnectError:", NULL };

static const char *const task_words[] = { "can't start new thread", "BlockingIOError", "Resource temporarily unavailable",
                                          "Thread creation failed", "pthread_create failed",
                                          "unable to create new thread", "Cannot fork", NULL };

static const char *const space_words[] = { "No space left on device", "Disk quota exceeded", NULL };

static const char *const memory_words[] = { "MemoryError", "Cannot allocate memory", "std::bad_alloc", NULL };

static const char *const write_words[] = { "Read-only file system", "Permission denied", NULL };

/* What the walls make impossible, by the standard library's file that stands in the traceback. */
static const struct {
        const char *in_context, *sentence;
} impossible[] = {
        { "multiprocessing/managers.py\"",
          "multiprocessing.Manager needs sockets, which do not exist in this sandbox: use multiprocessing.Pool, Queue, "
          "Value, Array or shared_memory instead." },
        { "multiprocessing/forkserver.py\"",
          "The start method \"forkserver\" needs sockets, which do not exist in this sandbox: use \"fork\" (the default "
          "here) or \"spawn\"." },
        { "/pty.py\"", "There are no terminals in this sandbox: run the program with pipes, for instance by subprocess." },
        { "os.openpty(", "There are no terminals in this sandbox: run the program with pipes, for instance by subprocess." },
        { "out of pty devices",
          "There are no terminals in this sandbox: run the program with pipes, for instance by subprocess." },
};

/* The last line that is not blank, in place. */
static char* last_line(char *text) {
        size_t n = strlen(text);
        char *begin;

        while (n > 0 && strchr(" \t\r\n", text[n - 1]))
                text[--n] = '\0';
        begin = strrchr(text, '\n');
        return begin ? begin + 1 : text;
}

/* The name behind one of module_words, in or without quotes. Output of hostile code ends up in a sentence of ours, so
 * only what can be a name of a module is taken. Returns false when there is none. */
static bool module_name(const char *line, char ret[static MODULE_CHARS_MAX + 1]) {
        size_t n = 0;

        for (size_t i = 0; module_words[i]; i++) {
                const char *p = strstr(line, module_words[i]);

                if (!p)
                        continue;
                p += strlen(module_words[i]);
                if (*p == '\'' || *p == '"')
                        p++;
                for (; n < MODULE_CHARS_MAX && (isalnum((unsigned char) p[n]) || strchr("_.-", p[n])) && p[n]; n++)
                        ret[n] = p[n];
                while (n > 0 && ret[n - 1] == '.')
                        n--;
                ret[n] = '\0';
                return n > 0;
        }

        return false;
}

/* Returns 1 when *ret_cause was set. */
static int find_cause(const char *line, const char *context, char **ret_cause) {
        char module[MODULE_CHARS_MAX + 1];
        int r;

        if (module_name(line, module)) {
                r = str_printf(ret_cause, "The module '%s' is not installed here and cannot be installed, for there is no "
                               "network: use the standard library and the installed packages, which the tool's "
                               "description lists.", module);
                return r < 0 ? r : 1;
        }

        if (line_has(line, network_words) ||
            (strstr(line, "Operation not permitted") && strstr(context, "socket"))) {
                r = str_printf(ret_cause, "There is no network in this sandbox: every connection fails, so pass what the "
                               "program needs in its code or its stdin.");
                return r < 0 ? r : 1;
        }

        return 0;
}

static int add_limit_hints(const char *line, const HintLimits *l, char ***hints) {
        int r;

        if (line_has(line, task_words) && l->tasks_max > 0) {
                r = strv_extendf(hints, "A run may have %" PRIu64 " processes and threads at the same time; the program "
                                 "probably reached that limit.", l->tasks_max);
                if (r < 0)
                        return r;
        }

        if (line_has(line, space_words) && l->tmpfs_bytes > 0) {
                r = strv_extendf(hints, "Files of a run live in memory, limited to %s (also in number); the program "
                                 "probably reached that limit.", size_text_bytes(l->tmpfs_bytes).text);
                if (r < 0)
                        return r;
        }

        if (line_has(line, memory_words) && l->memory_max_bytes > 0) {
                r = strv_extendf(hints, "A run may use %s of memory: process the data in smaller pieces.",
                                 size_text_bytes(l->memory_max_bytes).text);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int add_other_hints(const char *line, char ***hints) {
        if (line_has(line, write_words))
                return strv_extend(hints, "Only the working directory, /tmp, the home directory and /dev/shm are writable, "
                                          "and what a run writes is gone after it.");

        if (strstr(line, "Operation not permitted"))
                return strv_extend(hints, "The sandbox refuses system calls that need privileges, sockets, other "
                                          "namespaces or scheduling rights.");

        if (strstr(line, "EOFError: EOF when reading a line"))
                return strv_extend(hints, "The program asked for more input than it was given: pass its input as stdin.");

        return 0;
}

int hints_from_stderr(const Capture *err, const HintLimits *limits, char **ret_cause, char ***ret_hints) {
        _cleanup_buffer_ Buffer context = BUFFER_INIT(0), copy = BUFFER_INIT(0);
        _cleanup_strv_ char **hints = NULL;
        _cleanup_free_ char *cause = NULL;
        bool is_truncated;
        char *line;
        int r;

        assert(err);
        assert(limits);
        assert(ret_cause);
        assert(ret_hints);

        r = capture_text(err, CONTEXT_CHARS_MAX, &context, &is_truncated);
        if (r < 0)
                return r;
        for (size_t i = 0; i < context.n_bytes; i++)
                if (context.data[i] == '\0')
                        context.data[i] = ' '; /* output may hold any byte; what follows sees one string */
        r = buffer_append(&copy, context.data ?: "", context.n_bytes);
        if (r < 0)
                return r;

        line = last_line(copy.data ?: (char[]) { '\0' });

        for (size_t i = 0; i < ELEMENTSOF(impossible); i++)
                if (context.data && strstr(context.data, impossible[i].in_context)) {
                        r = strv_extend(&hints, impossible[i].sentence);
                        if (r < 0)
                                return r;
                        break;
                }

        /* The reason why such a thing is impossible is often a socket, which is not what the program is about. */
        if (!hints) {
                r = find_cause(line, context.data ?: "", &cause);
                if (r == 0)
                        r = add_limit_hints(line, limits, &hints);
                if (r == 0 && !hints)
                        r = add_other_hints(line, &hints);
                if (r < 0)
                        return r;
        }

        *ret_cause = TAKE_PTR(cause);
        *ret_hints = TAKE_PTR(hints);
        return 0;
}
