/* SPDX-License-Identifier: MIT */

#include "tool/environment.h"

#include <errno.h>
#include <inttypes.h>

#include "base/strv.h"
#include "config.h"
#include "exec/size-text.h"
#include "tool/schema.h"

/* What the launcher's self-test verifies from inside a unit, and the runner again in every run: without any
 * one of these the verdict is another, and nothing runs. */
static const char *const walls[] = {
        "own network namespace with loopback only, no sockets",
        "own user: a dynamic one for each run",
        "own root directory: of the host /usr and the time zone, read-only",
        "own /tmp, /dev/shm, /run, IPC and process view",
        "no capabilities, no new privileges, no set-user-ID files",
        "system call filter: no namespaces, tracing, keyrings, io_uring, realtime priority",
};

/* Under a user's own manager it is that user's. */
#define WALL_USER 1
static const char wall_of_user[] = "own user namespace, with this user alone in it";

static const char* wall(const EnvironmentFacts *f, size_t i) {
        return i == WALL_USER && f->sandbox->hello.is_user ? wall_of_user : walls[i];
}

/* These are limits, and need a controller of the control group. */
static const struct {
        Controller controller;
        const char *name, *text;
} limits[] = {
        { CONTROLLER_MEMORY, "memory", "memory limit" },
        { CONTROLLER_PIDS, "pids", "limit of processes and threads" },
        { CONTROLLER_CPU, "cpu", "CPU quota" },
};

static bool is_ok(const EnvironmentFacts *f) {
        return f->sandbox->is_known && f->sandbox->hello.verdict == WIRE_VERDICT_OK;
}

static const char* manager_of(const EnvironmentFacts *f) {
        return f->sandbox->hello.is_user ? "user" : "system";
}

static const char* find_interpreter(const EnvironmentFacts *f, const char *wanted) {
        size_t n = wanted ? strlen(wanted) : 0;

        STRV_FOREACH(i, f->interpreters)
                if (!wanted || (strncmp(*i, wanted, n) == 0 && ((*i)[n] == '.' || (*i)[n] == ' ')))
                        return *i;
        return NULL;
}

/* "3.13.5 (/usr/bin/python3)": what will run. A version that is asked for is told with the one that serves
 * it, or alone. */
static const char* default_interpreter(const EnvironmentFacts *f) {
        const char *wanted = f->settings->python_version;

        return find_interpreter(f, wanted) ?: wanted ?: f->settings->python;
}

/* Why no program runs with the version that was asked for, and what to do; NULL: it is there, or all that is
 * known of an interpreter is that it is some Python 3. */
static const char* python_problem(const EnvironmentFacts *f) {
        const char *wanted = f->settings->python_version;

        if (!wanted || !f->sandbox->is_known || strv_length(f->interpreters) == 0 ||
            find_interpreter(f, wanted))
                return NULL;
        STRV_FOREACH(i, f->interpreters)
                if ((*i)[strcspn(*i, ". ")] != '.')
                        return NULL;
        return f->settings->packages.allow_python_downloads ?
                       "not installed; --python-version asks for it, and it is downloaded before the first "
                       "program runs" :
                       "not installed, so no program runs; --python-version asks for it. Start the server "
                       "without that option, or install it and name it in Python= or ExtraPythons= of "
                       "mcp-exec.conf";
}

/* "0.13.9 (/usr/local/bin/uv)" */
static int append_uv(const PythonFacts *f, Buffer *b) {
        if (!*f->uv_path)
                return buffer_append_str(b, "uv: none\n");
        if (!*f->uv_version)
                return buffer_printf(b, "uv: %s\n", f->uv_path);
        return buffer_printf(b, "uv: %s (%s)\n", f->uv_version, f->uv_path);
}

static uint64_t smaller_known(uint64_t ours, uint64_t theirs) {
        return theirs > 0 ? MIN_OF(ours, theirs) : ours;
}

/* ---- Text ---- */

static int append_status(const EnvironmentFacts *f, Buffer *b) {
        const WireHello *h = &f->sandbox->hello;

        if (!f->sandbox->is_known)
                return buffer_printf(b, "Sandbox status: unknown, nothing runs: %s\n",
                                     f->sandbox->error ?: "the launcher does not answer");
        if (h->verdict != WIRE_VERDICT_OK)
                return buffer_printf(b, "Sandbox status: refused, nothing runs: %s\n", h->reason);
        return buffer_printf(b, "Sandbox status: active%s\n",
                             h->is_relaxed ? ", without all of the limits (RequireControllers=)" : "");
}

/* The predecessor's nine lines. */
static int append_nine(const EnvironmentFacts *f, Buffer *b) {
        const Settings *s = f->settings;
        const WireHello *h = &f->sandbox->hello;
        const char *problem = python_problem(f);
        bool is_warm = f->python.default_packages || f->python.default_problem;
        int r;

        r = buffer_printf(b, "Python version: %s%s%s\n", default_interpreter(f), problem ? ": " : "",
                          problem ?: "");
        if (r >= 0)
                r = append_uv(&f->python, b);
        if (r >= 0)
                r = buffer_printf(b, "Platform: %s %s\n", f->machine.sysname, f->machine.machine);
        if (r >= 0 && f->sandbox->is_known)
                r = buffer_printf(b, "Sandbox backend: native (systemd %s, %s manager)\n",
                                  h->manager_version_text, manager_of(f));
        else if (r >= 0)
                r = buffer_append_str(b, "Sandbox backend: native (systemd)\n");
        if (r >= 0)
                r = append_status(f, b);
        return r < 0 ? r : buffer_printf(b, "Default timeout: %" PRIu64 "s\n"
                                            "Max timeout: %" PRIu64 "s\n"
                                            "Max output: %" PRIu64 " bytes\n"
                                            "Cache warming: %s%s",
                                         s->default_timeout_usec / USEC_PER_SEC,
                                         s->max_timeout_usec / USEC_PER_SEC, s->max_output_bytes,
                                         is_warm ? "enabled, " : "disabled",
                                         is_warm ? s->packages.default_requirements : "");
}

static int append_list(const char *title, char *const *l, Buffer *b) {
        const char *separator = "";
        int r;

        r = buffer_printf(b, "\n%s: %s", title, strv_length(l) == 0 ? "none" : "");
        STRV_FOREACH(s, l) {
                if (r >= 0)
                        r = buffer_printf(b, "%s%s", separator, *s);
                separator = ", ";
        }
        return r;
}

/* Of the set that programs get which name no packages. */
static int append_default(const PythonFacts *f, Buffer *b) {
        if (f->default_problem)
                return buffer_printf(b,
                                     "\nDefault packages: missing, so programs run with what is installed: "
                                     "%s Administrators: repair that, in the file that DefaultRequirements= "
                                     "names or in mcp-exec.conf; it is tried again with the next program "
                                     "after five minutes, or by a restart of the server",
                                     f->default_problem);
        if (f->default_packages)
                return buffer_append_str(b, f->is_default_ready ?
                                                    "\nDefault packages: ready" :
                                                    "\nDefault packages: being prepared, programs wait for "
                                                    "them");
        return 0;
}

static int append_protections(const EnvironmentFacts *f, Buffer *b) {
        int r;

        if (!is_ok(f))
                return buffer_append_str(b, "\nProtections: not proven, so nothing runs");
        r = buffer_append_str(b, "\nProtections (proven from inside):");
        for (size_t i = 0; i < ELEMENTSOF(walls) && r >= 0; i++)
                r = buffer_printf(b, "\n  - %s", wall(f, i));
        for (size_t i = 0; i < ELEMENTSOF(limits) && r >= 0; i++)
                if (f->sandbox->hello.controllers & limits[i].controller)
                        r = buffer_printf(b, "\n  - %s", limits[i].text);
        return r;
}

static int append_text(const EnvironmentFacts *f, Buffer *b) {
        const Settings *s = f->settings;
        const WireHello *h = &f->sandbox->hello;
        int r;

        r = append_nine(f, b);
        if (r >= 0)
                r = append_list("Interpreters", f->interpreters, b);
        if (r >= 0)
                r = append_list("Installed", f->packages, b);
        if (r >= 0)
                r = append_default(&f->python, b);
        if (r >= 0 && f->python.problem)
                r = buffer_printf(b, "\nDeclared packages: not possible here: %s", f->python.problem);
        else if (r >= 0)
                r = buffer_printf(b, "\nDeclared packages: %s; %zu %s ready",
                                  f->python.is_offline ? "only sets that are there, nothing is fetched" :
                                                         "fetched before the script starts",
                                  f->n_sets, f->n_sets == 1 ? "set is" : "sets are");
        if (r >= 0)
                r = buffer_printf(
                        b,
                        "\nNetwork of scripts: none\nLimits of a run: %s of memory, %u%% of a "
                        "CPU, %" PRIu64 " processes and threads, %s of files",
                        size_text_bytes(smaller_known(s->memory_max_bytes, h->memory_max_bytes)).text,
                        s->cpu_quota_percent, smaller_known(s->tasks_max, h->tasks_max),
                        size_text_bytes(h->tmpfs_bytes ?: s->tmpfs_bytes).text);
        return r < 0 ? r : append_protections(f, b);
}

/* ---- Object ---- */

static void write_strings(JsonWriter *w, const char *key, char *const *l) {
        json_key(w, key);
        json_begin_array(w);
        STRV_FOREACH(s, l)
                json_string(w, *s);
        json_end_array(w);
}

static void write_text(JsonWriter *w, const char *key, const char *text) {
        json_key(w, key);
        json_string(w, text);
}

static void write_number(JsonWriter *w, const char *key, uint64_t n) {
        json_key(w, key);
        json_unsigned(w, n);
}

static void write_sandbox(const EnvironmentFacts *f, JsonWriter *w) {
        const WireHello *h = &f->sandbox->hello;

        json_key(w, "sandbox");
        json_begin_object(w);
        write_text(w, "backend", "systemd");
        write_text(w, "status", is_ok(f) ? "active" : f->sandbox->is_known ? "refused" : "unknown");
        if (!f->sandbox->is_known)
                write_text(w, "reason", f->sandbox->error ?: "the launcher does not answer");
        else {
                write_text(w, "manager", manager_of(f));
                write_text(w, "systemd", h->manager_version_text);
                if (!is_ok(f)) {
                        write_text(w, "reason", h->reason);
                        write_text(w, "remedy", h->remedy);
                }
        }
        json_key(w, "controllers");
        json_begin_array(w);
        for (size_t i = 0; i < ELEMENTSOF(limits); i++)
                if (f->sandbox->is_known && (h->controllers & limits[i].controller))
                        json_string(w, limits[i].name);
        json_end_array(w);
        json_key(w, "protections");
        json_begin_array(w);
        for (size_t i = 0; i < ELEMENTSOF(walls) && is_ok(f); i++)
                json_string(w, wall(f, i));
        for (size_t i = 0; i < ELEMENTSOF(limits) && is_ok(f); i++)
                if (h->controllers & limits[i].controller)
                        json_string(w, limits[i].text);
        json_end_array(w);
        json_end_object(w);
}

static void write_limits(const EnvironmentFacts *f, JsonWriter *w) {
        const Settings *s = f->settings;
        const WireHello *h = &f->sandbox->hello;

        json_key(w, "limits");
        json_begin_object(w);
        write_number(w, "default_timeout_s", s->default_timeout_usec / USEC_PER_SEC);
        write_number(w, "max_timeout_s", s->max_timeout_usec / USEC_PER_SEC);
        write_number(w, "max_code_bytes", s->max_code_bytes);
        write_number(w, "max_stdin_bytes", s->max_stdin_bytes);
        write_number(w, "max_output_bytes", s->max_output_bytes);
        write_number(w, "memory_bytes", smaller_known(s->memory_max_bytes, h->memory_max_bytes));
        write_number(w, "tasks", smaller_known(s->tasks_max, h->tasks_max));
        write_number(w, "cpu_percent", s->cpu_quota_percent);
        write_number(w, "files_bytes", h->tmpfs_bytes ?: s->tmpfs_bytes);
        write_number(w, "parallel_runs", settings_parallel(s));
        json_end_object(w);
}

static void write_packages(const EnvironmentFacts *f, JsonWriter *w) {
        json_key(w, "packages");
        json_begin_object(w);
        write_strings(w, "installed", f->packages);
        json_key(w, "can_be_declared");
        json_boolean(w, !f->python.problem);
        if (f->python.problem)
                write_text(w, "problem", f->python.problem);
        if (f->python.default_packages || f->python.default_problem) {
                json_key(w, "default_ready");
                json_boolean(w, f->python.is_default_ready);
        }
        if (f->python.default_problem)
                write_text(w, "default_problem", f->python.default_problem);
        json_key(w, "offline");
        json_boolean(w, f->python.is_offline);
        write_text(w, "uv", f->python.uv_path);
        write_text(w, "uv_version", f->python.uv_version);
        write_number(w, "sets", f->n_sets);
        json_end_object(w);
}

static int write_structured(const EnvironmentFacts *f, Buffer *b) {
        JsonWriter w = JSON_WRITER_INIT(b);

        json_begin_object(&w);
        write_text(&w, "version", MCP_EXEC_VERSION);
        write_text(&w, "python", default_interpreter(f));
        if (python_problem(f))
                write_text(&w, "python_problem", python_problem(f));
        write_strings(&w, "interpreters", f->interpreters);
        write_text(&w, "platform", f->machine.sysname);
        write_text(&w, "machine", f->machine.machine);
        write_sandbox(f, &w);
        write_limits(f, &w);
        write_packages(f, &w);
        json_end_object(&w);
        return json_writer_finish(&w);
}

int environment_write(const EnvironmentFacts *f, Buffer *content, Buffer *structured) {
        _cleanup_buffer_ Buffer text = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(content);
        int r;

        assert(f && f->settings && f->sandbox);
        assert(content);
        assert(structured);

        r = append_text(f, &text);
        if (r < 0)
                return r;
        json_begin_array(&w);
        json_begin_object(&w);
        write_text(&w, "type", "text");
        json_key(&w, "text");
        json_string_n(&w, text.data, text.n_bytes);
        json_end_object(&w);
        json_end_array(&w);
        r = json_writer_finish(&w);
        return r < 0 ? r : write_structured(f, structured);
}

void environment_write_schema(JsonWriter *w) {
        static const char strings[] = "\"items\":{\"type\":\"string\"}";
        const SchemaProperty properties[] = {
                { "version", "string", "Of mcp-exec", true, NULL },
                { "python", "string", "The default interpreter", true, NULL },
                { "python_problem", "string", "Why no program runs with it, where none does", false, NULL },
                { "interpreters", "array", "All of them, as far as known", true, strings },
                { "platform", "string", "The operating system", true, NULL },
                { "machine", "string", "The architecture", true, NULL },
                { "sandbox", "object", "Who makes the sandbox, whether it works, what it protects from",
                  true, NULL },
                { "limits", "object", "Of one run, and of what may be sent", true, NULL },
                { "packages", "object", "What can be imported, and whether scripts can declare more", true,
                  NULL },
        };

        schema_write(w, properties, ELEMENTSOF(properties), /* is_closed= */ false);
}
