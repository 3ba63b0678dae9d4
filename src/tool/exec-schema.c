/* SPDX-License-Identifier: MIT */

/* What clients are told about the exec tool: generated from the settings, so that it is true. Models read
 * it. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/strv.h"
#include "exec/size-text.h"
#include "tool/exec.h"
#include "tool/input-files.h"
#include "tool/schema.h"

#define DESCRIPTION_BYTES_MAX 2000 /* clients cut descriptions at 2 KiB */

#define NAMED_MAX 16 /* of the administrator's set, at first; and a set of no more is named whole */

/* Distributions worth a word, with the name to import where it is another one. */
static const struct {
        const char *name, *import;
} useful_packages[] = {
        { "numpy", NULL },
        { "pandas", NULL },
        { "matplotlib", NULL },
        { "Pillow", "PIL" },
        { "PyYAML", "yaml" },
        { "Jinja2", "jinja2" },
        { "scipy", NULL },
        { "sympy", NULL },
        { "scikit-learn", "sklearn" },
        { "networkx", NULL },
        { "lxml", NULL },
        { "openpyxl", NULL },
        { "beautifulsoup4", "bs4" },
        { "python-dateutil", "dateutil" },
        { "tabulate", NULL },
        { "grep-ast", "grep_ast" },
        { "tree-sitter-language-pack", "tree_sitter_language_pack" },
};

/* Names of packages compare without case, and "_", "-" and "." are one. Both may have a version after it. */
static char fold(char c) {
        if (c >= 'A' && c <= 'Z')
                return (char) (c - 'A' + 'a');
        return c == '_' || c == '.' ? '-' : c == ' ' ? '\0' : c;
}

static bool is_package(const char *a, const char *b) {
        for (; fold(*a) && fold(*a) == fold(*b); a++)
                b++;
        return fold(*a) == fold(*b);
}

static const char* find_package(char *const *packages, const char *name) {
        STRV_FOREACH(p, packages)
                if (is_package(*p, name))
                        return *p;
        return NULL;
}

static bool is_useful(const char *entry) {
        for (size_t i = 0; i < ELEMENTSOF(useful_packages); i++)
                if (is_package(entry, useful_packages[i].name))
                        return true;
        return false;
}

static int name_package(const char *entry, size_t *n, Buffer *b) {
        const char *import = NULL;
        int r;

        for (size_t i = 0; i < ELEMENTSOF(useful_packages); i++)
                if (is_package(entry, useful_packages[i].name))
                        import = useful_packages[i].import;
        ++*n;
        r = buffer_printf(b, ", %.60s", entry);
        return r < 0 || !import ? r : buffer_printf(b, " (import %s)", import);
}

/* Those that the administrator asked for, in that order. */
static int name_asked(char *const *packages, char *const *asked, size_t *n, Buffer *b) {
        int r = 0;

        STRV_FOREACH(a, asked) {
                const char *p = find_package(packages, *a);

                if (r < 0 || *n >= NAMED_MAX)
                        break;
                if (p && find_package(asked, *a) == *a) /* there may be lines for several platforms */
                        r = name_package(p, n, b);
        }
        return r;
}

int exec_describe_packages(char *const *packages, char *const *asked, Buffer *b) {
        size_t n = 0, n_all = strv_length(packages);
        bool has_all_asked;
        int r;

        if (n_all == 0)
                return buffer_append_str(b, "Importable: the standard library.");
        r = buffer_append_str(b, "Importable: the standard library");
        if (r >= 0)
                r = name_asked(packages, asked, &n, b);
        has_all_asked = n < NAMED_MAX;
        for (size_t i = 0; i < ELEMENTSOF(useful_packages) && r >= 0 && has_all_asked; i++) {
                const char *p = find_package(packages, useful_packages[i].name);

                if (p && !find_package(asked, p))
                        r = name_package(p, &n, b);
        }
        /* What came along with those that were asked for. */
        if (asked && has_all_asked && n_all <= NAMED_MAX) {
                STRV_FOREACH(p, packages)
                        if (r >= 0 && !find_package(asked, *p) && !is_useful(*p))
                                r = name_package(*p, &n, b);
        }
        if (r >= 0 && n_all > n)
                r = buffer_printf(b, " and %zu other distribution%s (importlib.metadata lists them)",
                                  n_all - n, n_all - n == 1 ? "" : "s");
        return r < 0 ? r : buffer_append_str(b, ".");
}

static int describe_limits(const Settings *s, const char *timeout_name, Buffer *b) {
        return buffer_printf(
                b,
                "Limits: %s unless %s says otherwise (at most %s), %s of memory, %u%% of a CPU, "
                "%" PRIu64 " processes and threads, %s of files in the working directory and /tmp "
                "(all of it in memory). ",
                size_text_usec(s->default_timeout_usec).text, timeout_name,
                size_text_usec(s->max_timeout_usec).text, size_text_bytes(s->memory_max_bytes).text,
                s->cpu_quota_percent, s->tasks_max, size_text_bytes(s->tmpfs_bytes).text);
}

static int describe_output(const Settings *s, Buffer *b) {
        if (s->has_output_limit_override)
                return buffer_printf(b, "Of each stream at most %s are shown, its beginning and its end. ",
                                     size_text_bytes(s->max_output_bytes).text);
        return buffer_printf(
                b, "Of each stream at most %" PRIu64 " characters are shown, its beginning and its end. ",
                s->max_reply_chars);
}

static int describe_files(const Settings *s, Buffer *b) {
        if (s->max_files == 0)
                return 0;
        return buffer_append_str(b, "Files left in the working directory come back: text, and PNG, JPEG, "
                                    "GIF and WebP images, so save charts there. ");
}

static int describe_long_runs(const Settings *s, Buffer *b) {
        int r = 0;

        if (s->sync_limit_usec > 0)
                r = buffer_printf(b, "A program that takes longer than %s may be answered with status "
                                     "running: get_run then waits for its end. ",
                                  size_text_usec(s->sync_limit_usec).text);
        return r < 0 ? r : buffer_printf(b, "get_run with offset shows output that was left out. ");
}

int exec_describe_running(const Settings *s, const char *timeout_name, Buffer *b) {
        int r;

        assert(s);
        assert(timeout_name);
        assert(b);

        r = describe_limits(s, timeout_name, b);
        if (r >= 0)
                r = describe_output(s, b);
        if (r >= 0)
                r = describe_files(s, b);
        if (r >= 0)
                r = describe_long_runs(s, b);
        if (r >= 0)
                r = buffer_append_str(
                        b, "A program that fails, is killed or runs out of time is a normal result: "
                           "status says which, message and hints say what to do.");
        if (r >= 0 &&
            b->n_bytes > DESCRIPTION_BYTES_MAX) /* long version numbers: ASCII, so any place will do */
                b->data[b->n_bytes = DESCRIPTION_BYTES_MAX] = '\0';
        return r;
}

static int describe(const ToolRegistry *registry, Buffer *b) {
        PythonFacts facts;
        int r;

        r = buffer_append_str(
                b, "Runs a Python 3 program in a fresh sandbox and returns what it printed. Send the "
                   "whole program each time: nothing (variables, files, processes) is kept between calls. "
                   "Print what you want to see; the value of a last expression is not shown.\n\n"
                   "No network, no display, no pip. Give it its data in the code, in stdin or in files. ");
        python_facts(registry->python, &facts);
        if (r >= 0)
                r = exec_describe_packages(facts.default_packages ?: registry->packages, facts.default_asked,
                                           b);
        if (r >= 0 && facts.default_problem)
                r = buffer_append_str(b, " More that this server should offer is missing at the moment; "
                                         "check_environment says why.");
        if (r >= 0)
                r = buffer_append_str(b,
                                      " Other packages: declare them in a PEP 723 block (# /// script), or "
                                      "use execute_python.\n\n");
        return r < 0 ? r : exec_describe_running(registry->settings, "timeout_s", b);
}

void exec_describe_timeout(const Settings *s, char ret[static EXEC_TIMEOUT_TEXT_BYTES]) {
        (void) snprintf(ret, EXEC_TIMEOUT_TEXT_BYTES,
                        "Time limit in whole seconds. Default (also for 0) %" PRIu64
                        ", otherwise clamped to 1 to %" PRIu64 ".",
                        s->default_timeout_usec / USEC_PER_SEC, s->max_timeout_usec / USEC_PER_SEC);
}

const char exec_background_text[] =
        "Answer at once with a run_id while the program runs on; get_run has the result.";

static void write_input_schema(JsonWriter *w, const Settings *s) {
        char code[160], timeout[EXEC_TIMEOUT_TEXT_BYTES], input[200], files[INPUT_FILES_TEXT_BYTES];
        const SchemaProperty properties[] = {
                { "code", "string", code, .is_required = true },
                { "timeout_s", "integer", timeout },
                { "stdin", "string", input },
                INPUT_FILES_PROPERTY(files),
                { "background", "boolean", exec_background_text },
        };

        (void) snprintf(code, sizeof(code), "The Python program; runs as main.py. At most %s.",
                        size_text_bytes(s->max_code_bytes).text);
        exec_describe_timeout(s, timeout);
        (void) snprintf(input, sizeof(input),
                        "What the program reads from its standard input; empty by default. "
                        "At most %s.",
                        size_text_bytes(s->max_stdin_bytes).text);
        input_files_describe(s, "Together with stdin", files);
        schema_write(w, properties, ELEMENTSOF(properties), /* is_closed= */ true);
}

static int write_output_schema(JsonWriter *w, bool has_pages) {
        static const char usage[] =
                "\"properties\":{\"cpu_ms\":{\"type\":\"integer\",\"description\":\"CPU time\"},"
                "\"memory_peak_bytes\":{\"type\":\"integer\",\"description\":\"Most memory held at one "
                "time\"}}";
        static const char sentences[] = "\"items\":{\"type\":\"string\"}",
                          files[] =
                "\"items\":{\"type\":\"object\",\"properties\":{"
                "\"path\":{\"type\":\"string\",\"description\":\"Below the working directory\"},"
                "\"bytes\":{\"type\":\"integer\"},"
                "\"mime_type\":{\"type\":\"string\"},"
                "\"text\":{\"type\":\"string\",\"description\":\"All of its text\"},"
                "\"image\":{\"type\":\"integer\",\"description\":\"Number of the image that shows it, "
                "beside this result\"},"
                "\"sha256\":{\"type\":\"string\"},"
                "\"reason\":{\"type\":\"string\",\"description\":\"Why its content is not shown\"}},"
                "\"required\":[\"path\",\"bytes\"]}";
        _cleanup_buffer_ Buffer status = BUFFER_INIT(0);
        JsonWriter words = JSON_WRITER_INIT(&status);
        int r;

        json_begin_array(&words);
        for (ExecStatus e = 0; e < _EXEC_STATUS_MAX; e++)
                json_string(&words, exec_status_to_string(e));
        json_end_array(&words);
        r = json_writer_finish(&words);
        if (r >= 0) {
                _cleanup_free_ char *status_enum = NULL;

                r = str_printf(&status_enum, "\"enum\":%s", status.data);
                if (r < 0)
                        return r;
                const SchemaProperty properties[] = {
                        { "stdout", "string", "What the program wrote to stdout", true, NULL },
                        { "stderr", "string", "What the program wrote to stderr", true, NULL },
                        { "exit_code", "integer",
                          "Exit status; 128 + number of the signal that killed it; -1 for a timeout and "
                          "while it runs", true, NULL },
                        { "duration_ms", "integer", "How long the program ran", true, NULL },
                        { "truncated", "boolean", "Whether part of the output is left out", true, NULL },
                        { "timed_out", "boolean", "Whether the time limit ended it", true, NULL },
                        { "status", "string", "How the program ended", true, status_enum },
                        { "signal", "string", "The signal that killed it, such as SIGSEGV", false, NULL },
                        { "message", "string", "What happened and what to do, in a sentence", false, NULL },
                        { "hints", "array", "Guesses at the cause", false, sentences },
                        { "run_id", "string",
                          "Names this run: for get_run, cancel_run and the server's journal", true, NULL },
                        { "stdout_bytes", "integer", "Bytes written to stdout, shown or not", true, NULL },
                        { "stderr_bytes", "integer", "Bytes written to stderr, shown or not", true, NULL },
                        { "usage", "object", "What it used", true, usage },
                        { "files", "array", "Files it left in the working directory, when there are any",
                          false, files },
                        { "files_note", "string", "What is missing from files, when something is", false,
                          NULL },
                        /* The last one: only where there are pages. */
                        { "next_offset", "integer", "The offset of the next page, when there is one", false,
                          NULL },
                };
                schema_write(w, properties, ELEMENTSOF(properties) - (has_pages ? 0 : 1),
                             /* is_closed= */ false);
        }
        return r;
}

void exec_tool_write_annotations(JsonWriter *w, McpVersion version, const char *title,
                                 const ToolHints *hints) {
        if (version < MCP_2025_03_26)
                return;
        /* Spelled out, for the defaults are the worst case. */
        json_key(w, "annotations");
        json_begin_object(w);
        json_key(w, "title");
        json_string(w, title);
        json_key(w, "readOnlyHint");
        json_boolean(w, hints->is_read_only);
        json_key(w, "destructiveHint");
        json_boolean(w, hints->is_destructive);
        json_key(w, "idempotentHint");
        json_boolean(w, hints->is_idempotent);
        json_key(w, "openWorldHint");
        json_boolean(w, hints->is_open_world);
        json_end_object(w);
}

void exec_tool_write_head(JsonWriter *w, McpVersion version, const char *name, const char *title,
                          const char *description, size_t n_description) {
        json_begin_object(w);
        json_key(w, "name");
        json_string(w, name);
        if (version >= MCP_2025_06_18) {
                json_key(w, "title");
                json_string(w, title);
        }
        json_key(w, "description");
        json_string_n(w, description, n_description);
        json_key(w, "inputSchema");
}

int exec_tool_write_tail(JsonWriter *w, McpVersion version, const char *title, const ToolHints *hints,
                         bool has_pages) {
        int r;

        if (version >= MCP_2025_06_18) {
                json_key(w, "outputSchema");
                r = write_output_schema(w, has_pages);
                if (r < 0)
                        return r;
        }
        exec_tool_write_annotations(w, version, title, hints);
        json_end_object(w);
        return 0;
}

int exec_tool_write(const ToolRegistry *registry, McpVersion version, JsonWriter *w) {
        static const char title[] = "Run Python";
        /* The sandbox changes nothing outside itself. An administrator who wants people to be asked before
         * each run does not let it be said. */
        unsigned said = registry->settings->run_hints;
        const ToolHints hints = {
                .is_read_only = said & HINT_READ_ONLY,
                .is_destructive = !(said & HINT_READ_ONLY),
                .is_open_world = !(said & HINT_CLOSED_WORLD),
        };
        _cleanup_buffer_ Buffer description = BUFFER_INIT(0);
        int r;

        r = describe(registry, &description);
        if (r < 0)
                return r;

        exec_tool_write_head(w, version, tool_exec.name, title, description.data, description.n_bytes);
        write_input_schema(w, registry->settings);
        return exec_tool_write_tail(w, version, title, &hints, /* has_pages= */ false);
}
