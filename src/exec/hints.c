/* SPDX-License-Identifier: MIT */

#include "exec/hints.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

#include "base/macro.h"
#include "base/strv.h"
#include "exec/size-text.h"

/* A traceback with its source lines is seldom longer than half of this; the other half is the stream's
 * begin. */
#define CONTEXT_CHARS_MAX 16000
#define MODULE_CHARS_MAX 64
#define PACKAGES_CHARS_MAX 500 /* a sentence, not a catalogue */

static bool line_has(const char *line, const char *const words[]) {
        for (; *words; words++)
                if (strstr(line, *words))
                        return true;
        return false;
}

static const char *const module_words[] = { "No module named ", "Missing optional dependency ",
                                            "No matching distribution found for ", NULL };

static const char *const network_words[] = {
        "Address family not supported by protocol", "Network is unreachable",
        "Temporary failure in name resolution", "Name or service not known",
        "No address associated with hostname", "Could not resolve host",
        "socket.gaierror", "urllib.error.URLError", "urlopen error", "ConnectionError:",
        "ConnectionRefusedError", "ConnectTimeout", "ClientConnectorError", "ClientConnectorDNSError",
        "MaxRetryError", "NewConnectionError", "NameResolutionError", "ConnectError:", NULL };

static const char *const task_words[] = {
        "can't start new thread", "BlockingIOError", "Resource temporarily unavailable",
        "Thread creation failed", "pthread_create failed", "unable to create new thread", "Cannot fork",
        NULL };

static const char *const space_words[] = { "No space left on device", "Disk quota exceeded", NULL };

static const char *const memory_words[] = {
        "MemoryError", "Cannot allocate memory", "std::bad_alloc", NULL };

static const char *const write_words[] = { "Read-only file system", "Permission denied", NULL };

#define NO_TERMINALS "There are no terminals in this sandbox: use pipes, for instance by subprocess."

/* What the walls make impossible, by the standard library's file that stands in the traceback. */
static const struct {
        const char *in_context, *sentence;
} impossible[] = {
        { "multiprocessing/managers.py\"",
          "multiprocessing.Manager needs sockets, which do not exist in this sandbox: use "
          "multiprocessing.Pool, Queue, Value, Array or shared_memory instead." },
        { "multiprocessing/forkserver.py\"",
          "The start method \"forkserver\" needs sockets, which do not exist in this sandbox: use \"fork\" "
          "(the default here) or \"spawn\"." },
        { "/pty.py\"", NO_TERMINALS },
        { "os.openpty(", NO_TERMINALS },
        { "out of pty devices", NO_TERMINALS },
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

/* The name behind one of module_words, in or without quotes. Output of hostile code ends up in a sentence of
 * ours, so only what can be a name of a module is taken. Returns false when there is none. */
static bool module_name(const char *line, char ret[static MODULE_CHARS_MAX + 1]) {
        size_t n = 0;

        for (size_t i = 0; module_words[i]; i++) {
                const char *p = strstr(line, module_words[i]);

                if (!p)
                        continue;
                p += strlen(module_words[i]);
                if (*p == '\'' || *p == '"')
                        p++;
                for (; n < MODULE_CHARS_MAX && p[n]; n++) {
                        if (!isalnum((unsigned char) p[n]) && !strchr("_.-", p[n]))
                                break;
                        ret[n] = p[n];
                }
                while (n > 0 && ret[n - 1] == '.')
                        n--;
                ret[n] = '\0';
                return n > 0;
        }

        return false;
}

/* Modules whose package has another name, as far as many look for them. */
static const struct {
        const char *module, *package;
} other_names[] = {
        { "Crypto", "pycryptodome" },
        { "OpenSSL", "pyopenssl" },
        { "PIL", "pillow" },
        { "bs4", "beautifulsoup4" },
        { "cv2", "opencv-python-headless" },
        { "dateutil", "python-dateutil" },
        { "docx", "python-docx" },
        { "dotenv", "python-dotenv" },
        { "fitz", "pymupdf" },
        { "jwt", "pyjwt" },
        { "pptx", "python-pptx" },
        { "skimage", "scikit-image" },
        { "sklearn", "scikit-learn" },
        { "yaml", "pyyaml" },
        /* Who asks for these wants something else, or one of many packages with this beginning. */
        { "azure", "NAME" },
        { "ensurepip", "NAME" },
        { "google", "NAME" },
        { "pip", "NAME" },
        { "uv", "NAME" },
};

/* "…declare it: …" with a package's name that probably is the right one. */
static int say_how_to_declare(const char *module, Buffer *b) {
        size_t n = strcspn(module, ".");

        for (size_t i = 0; i < ELEMENTSOF(other_names); i++)
                if (strlen(other_names[i].module) == n && strncmp(module, other_names[i].module, n) == 0) {
                        module = other_names[i].package;
                        n = strlen(module);
                        break;
                }
        return buffer_printf(b, " Programs declare the packages they need: with the lines \"# /// script\", "
                                "\"# dependencies = [\"%.*s\"]\" and \"# ///\" at the top, or in the "
                                "argument dependencies of execute_python (all of them, also those that are "
                                "installed here; a package may have another name than its module).",
                             (int) n, module);
}

static const char *const well_known[] = { "numpy", "scipy", "pandas", "matplotlib", "sympy", "scikit-learn",
                                          "pillow", "seaborn", "networkx", "requests", NULL };

/* "numpy 2.3.1" is one of "numpy", …; a package's name has letters of any case. */
static bool has_package(const char *const names[], const char *package) {
        size_t n = strcspn(package, " ");

        for (; *names; names++)
                if (strlen(*names) == n && strncasecmp(package, *names, n) == 0)
                        return true;
        return false;
}

/* "The module … Installed: numpy, pandas, and 31 more." */
static int say_missing_module(const char *module, const HintFacts *f, char **ret) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        const char *dot = strrchr(module, '.'); /* what stands before it was found */
        size_t n_named = 0, n_packages = strv_length(f->packages);
        int r;

        r = dot            ? buffer_printf(&b, "The module '%.*s' is here and has no part '%s'.",
                                           (int) (dot - module), module, dot + 1) :
            f->can_declare ? buffer_printf(&b, "The module '%s' is not installed here.", module) :
                             buffer_printf(&b, "The module '%s' is not installed here and cannot be "
                                               "installed, for there is no network in this sandbox.",
                                           module);
        if (r >= 0 && f->can_declare)
                r = say_how_to_declare(module, &b);
        if (r < 0)
                return r;
        if (f->can_declare && n_packages == 0)
                return buffer_steal(&b, ret, NULL);

        /* First what most programs are after: the list may be cut. */
        for (int is_well_known = 1; is_well_known >= 0; is_well_known--)
                STRV_FOREACH(p, f->packages) {
                        if (b.n_bytes > PACKAGES_CHARS_MAX || has_package(well_known, *p) != is_well_known)
                                continue;
                        r = buffer_printf(&b, "%s%.*s", n_named == 0 ? " Installed: " : ", ",
                                          (int) strcspn(*p, " "), *p);
                        if (r < 0)
                                return r;
                        n_named++;
                }

        if (n_named < n_packages)
                r = buffer_printf(&b, " and %zu more.", n_packages - n_named);
        else if (n_named > 0)
                r = buffer_append_str(&b, " and the standard library.");
        else
                r = buffer_append_str(&b, " Use the standard library and what the tool's description "
                                          "lists.");
        if (r < 0)
                return r;

        return buffer_steal(&b, ret, NULL);
}

/* Returns 1 when *ret_cause was set. */
static int find_cause(const char *line, const char *context, const HintFacts *f, char **ret_cause) {
        char module[MODULE_CHARS_MAX + 1];
        int r;

        if (module_name(line, module)) {
                r = say_missing_module(module, f, ret_cause);
                return r < 0 ? r : 1;
        }

        if (line_has(line, network_words) ||
            (strstr(line, "Operation not permitted") && strstr(context, "socket"))) {
                r = str_printf(ret_cause, "There is no network in this sandbox: every connection fails, so "
                                          "pass what the program needs in its code or its stdin.%s",
                               f->can_declare ? " Packages are declared (see execute_python), not "
                                                "downloaded." : "");
                return r < 0 ? r : 1;
        }

        return 0;
}

/* Where many processes fail to fork, their last words stand in each other's lines. */
static bool tells_of_tasks(const char *line, const char *context) {
        return line_has(line, task_words) ||
               (strstr(context, "os.fork()") && strstr(context, "BlockingIOError"));
}

static int add_limit_hints(const char *line, const char *context, const HintFacts *f, char ***hints) {
        int r;

        if (tells_of_tasks(line, context) && f->tasks_max > 0) {
                r = strv_extendf(hints, "A run may have %" PRIu64 " processes and threads at the same time; "
                                 "the program probably reached that limit.", f->tasks_max);
                if (r < 0)
                        return r;
        }

        if (line_has(line, space_words) && f->tmpfs_bytes > 0) {
                r = strv_extendf(hints, "Files of a run live in memory, limited to %s (also in number); the "
                                        "program probably reached that limit.",
                                 size_text_bytes(f->tmpfs_bytes).text);
                if (r < 0)
                        return r;
        }

        if (line_has(line, memory_words) && f->memory_max_bytes > 0) {
                r = strv_extendf(hints, "A run may use %s of memory: process the data in smaller pieces.",
                                 size_text_bytes(f->memory_max_bytes).text);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* From subprocess, that is about a program; from everything else, about a file to read or to write. */
static int add_no_file_hint(const char *context, char ***hints) {
        if (strstr(context, " in _execute_child\n"))
                return strv_extend(hints, "There is no such program in this sandbox: it has those of the "
                                          "machine's /usr and no others.");
        return strv_extend(hints, "The sandbox has no files of the machine it runs on, nor of earlier "
                                  "calls: what a program reads comes with its call, in exec's arguments "
                                  "stdin and files. A directory has to be made before a file is written "
                                  "into it.");
}

static int add_other_hints(const char *line, const char *context, char ***hints) {
        if (line_has(line, write_words))
                return strv_extend(hints, "Only the working directory, /tmp, the home directory and "
                                          "/dev/shm are writable, and what a run writes is gone after it.");

        if (strstr(line, "FileNotFoundError: [Errno 2] No such file or directory: "))
                return add_no_file_hint(context, hints);

        if (strstr(line, "_tkinter.TclError: no display") ||
            strstr(line, "_tkinter.TclError: couldn't connect to display"))
                return strv_extend(hints, "There is no display in this sandbox: a program shows what it "
                                          "has by printing, or by files in its working directory.");

        if (strstr(line, "SyntaxError: 'await' outside function"))
                return strv_extend(hints, "A script is not a notebook: put what awaits into an async "
                                          "function, and call it with asyncio.run().");

        if (strstr(line, "Operation not permitted"))
                return strv_extend(hints, "The sandbox refuses system calls that need privileges, sockets, "
                                          "other namespaces or scheduling rights.");

        if (strstr(line, "EOFError: EOF when reading a line"))
                return strv_extend(hints, "The program asked for more input than it was given: pass its "
                                          "input as stdin.");

        return 0;
}

static int say_no_pip(const HintFacts *f, char ***hints) {
        if (!f->can_declare)
                return strv_extend(hints, "There is no pip here, and no network that it could use.");
        return strv_extend(hints, "There is no pip here: programs declare the packages they need, in a "
                                  "\"# /// script\" block at their top or in the argument dependencies of "
                                  "execute_python.");
}

/* "!pip install", "%uv pip install" and so on. */
static bool is_installing(const char *line) {
        size_t n = strcspn(line, "\n");
        const char *install = memmem(line, n, " install", strlen(" install"));

        return install && memmem(line, (size_t) (install - line), "pip", strlen("pip"));
}

/* A SyntaxError shows the line that it is about. */
static int add_syntax_hints(const char *line, const char *context, const HintFacts *f, char ***hints) {
        const char *at = NULL;

        if (strncmp(line, "SyntaxError: ", strlen("SyntaxError: ")) != 0)
                return 0;
        for (const char *p = context; (p = strstr(p, "  File \"")); p++)
                at = p;
        at = at ? strchr(at, '\n') : NULL;
        if (!at)
                return 0;
        at += strspn(at, "\n ");
        if (strncmp(at, "```", 3) == 0)
                return strv_extend(hints, "The program begins or ends with a fence of Markdown (```): send "
                                          "it without.");
        if ((*at == '!' || *at == '%') && is_installing(at))
                return say_no_pip(f, hints);
        if (*at == '!' || *at == '%')
                return strv_extend(hints, "Lines that begin with \"!\" or \"%\" are commands of a notebook; "
                                          "this is Python alone, which has subprocess for other programs.");
        return 0;
}

/* From "python -m pip", wherever it was called: other programs tell the reason before the last line. */
static int add_pip_hint(const char *context, const HintFacts *f, char ***hints) {
        return strstr(context, ": No module named pip\n") ? say_no_pip(f, hints) : 0;
}

int hints_from_stderr(const Capture *err, const HintFacts *facts, char **ret_cause, char ***ret_hints) {
        _cleanup_buffer_ Buffer context = BUFFER_INIT(0), copy = BUFFER_INIT(0);
        _cleanup_strv_ char **hints = NULL;
        _cleanup_free_ char *cause = NULL;
        bool is_truncated;
        char *line;
        int r;

        assert(err);
        assert(facts);
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

        /* The reason why such a thing is impossible is often a socket, which is not what the program is
         * about. */
        if (!hints) {
                r = find_cause(line, context.data ?: "", facts, &cause);
                if (r == 0)
                        r = add_limit_hints(line, context.data ?: "", facts, &hints);
                if (r == 0 && !hints)
                        r = add_other_hints(line, context.data ?: "", &hints);
                if (r == 0 && !hints)
                        r = add_syntax_hints(line, context.data ?: "", facts, &hints);
                if (r == 0 && !hints)
                        r = add_pip_hint(context.data ?: "", facts, &hints);
                if (r < 0)
                        return r;
        }

        *ret_cause = TAKE_PTR(cause);
        *ret_hints = TAKE_PTR(hints);
        return 0;
}
