/* SPDX-License-Identifier: MIT */

/* execute_python {script, dependencies?, timeout_seconds?, files?, background?}: exec for scripts that bring
 * their packages. Names and text layout are the predecessor's, but for the last two arguments. */

#include <errno.h>
#include <stdio.h>

#include "base/strv.h"
#include "exec/size-text.h"
#include "tool/exec.h"
#include "tool/input-files.h"
#include "tool/schema.h"
#include "tool/script.h"

typedef struct ScriptArguments {
        const JsonValue *script, *dependencies, *timeout_seconds, *files, *background;
} ScriptArguments;

static int read_arguments(const Settings *s, const JsonValue *arguments, ExecRequest *q,
                          ExecCallParameters *ret, char **reterr_message) {
        ScriptArguments a = {};
        const JsonField fields[] = {
                { "script", JSON_STRING, .is_required = true, .ret = &a.script },
                { "dependencies", JSON_ARRAY, .accepts_null = true, .ret = &a.dependencies },
                { "timeout_seconds", JSON_NUMBER, .accepts_null = true, .ret = &a.timeout_seconds },
                { "files", JSON_ARRAY, .accepts_null = true, .ret = &a.files },
                { "background", JSON_BOOL, .accepts_null = true, .ret = &a.background },
        };
        int r;

        r = json_read_object(arguments, NULL, fields, ELEMENTSOF(fields), reterr_message);
        if (r < 0)
                return r;
        r = exec_take_program(s, "script", a.script, q, reterr_message);
        if (r < 0)
                return r;
        r = input_files_take(s, a.files, q, reterr_message);
        if (r < 0)
                return r;
        q->timeout_usec = exec_pick_timeout(s, a.timeout_seconds);
        q->presentation = RESULT_SECTIONS;
        ret->timeout = a.timeout_seconds;
        (void) json_get_bool(a.background, &ret->is_background);
        return script_take_dependencies(a.dependencies, &ret->dependencies, reterr_message);
}

static int call_execute_python(ToolRegistry *registry, const JsonValue *arguments, McpCall *call) {
        return exec_call(registry, tool_execute_python.name, read_arguments, arguments, call);
}

/* ---- What clients are told ---- */

static int describe_interpreters(const ToolRegistry *registry, Buffer *b) {
        const char *separator = "";
        int r;

        if (registry->settings->python_version)
                return buffer_printf(b, "Python %.20s.", registry->settings->python_version);
        if (strv_length(registry->interpreters) == 0)
                return buffer_append_str(b, "Python 3.");
        r = buffer_append_str(b, "Python ");
        STRV_FOREACH(i, registry->interpreters) { /* "3.13 (/usr/bin/python3)" */
                if (r >= 0)
                        r = buffer_printf(b, "%s%.*s", separator, (int) strcspn(*i, " "), *i);
                separator = ", ";
        }
        if (r >= 0)
                r = buffer_append_str(b, strv_length(registry->interpreters) > 1 ?
                                                 " (the first, unless requires-python says otherwise)." :
                                                 ".");
        return r;
}

static int describe(const ToolRegistry *registry, Buffer *b) {
        const PackageSettings *s = &registry->settings->packages;
        int r;

        r = buffer_append_str(
                b,
                "Runs a Python script with the packages it declares, in a fresh sandbox, and returns what "
                "it printed. Nothing is kept between calls: send the whole script.\n\n"
                "Declare packages in a PEP 723 block (best; requires-python works too):\n"
                "# /// script\n"
                "# dependencies = [\"pandas>=2.2\", \"httpx==0.28.1\"]\n"
                "# ///\n"
                "import pandas as pd\n"
                "print(pd.DataFrame({\"a\": range(5)}).describe())\n"
                "or in an argument, or both:\n"
                "{\"script\": \"import sympy; print(sympy.factor('x**2-1'))\", \"dependencies\": "
                "[\"sympy>=1.13\"]}\n"
                "or none: {\"script\": \"print('hello')\"}\n"
                "Pin versions for results that can be repeated. A script that declares packages can import "
                "only those and what they need: declare all of them, also what is installed here. ");
        if (r >= 0 && s->is_offline)
                r = buffer_append_str(b, "This server fetches nothing: only sets of packages that it has "
                                         "already can be used. ");
        else if (r >= 0)
                r = buffer_printf(b, "Packages are fetched and installed before the script starts%s; the "
                                     "first call with them may take minutes, later ones do not. "
                                     "timeout_seconds counts the script only. ",
                                  s->allow_source_builds ? "" : " (wheels only)");
        if (r >= 0)
                r = buffer_append_str(b, "The script itself has no network: give it its data in "
                                         "the script or in files. ");
        if (r >= 0)
                r = describe_interpreters(registry, b);
        if (r >= 0)
                r = buffer_append_str(b, "\n\n");
        return r < 0 ? r : exec_describe_running(registry->settings, "timeout_seconds", b);
}

static void write_input_schema(JsonWriter *w, const Settings *s) {
        char script[200], timeout[EXEC_TIMEOUT_TEXT_BYTES], files[INPUT_FILES_TEXT_BYTES];
        const SchemaProperty properties[] = {
                { "script", "string", script, .is_required = true },
                SCRIPT_DEPENDENCIES_PROPERTY("Packages beside those of the script's own block, as PEP 508 "
                                             "requirements: \"requests>=2.32\"."),
                { "timeout_seconds", "integer", timeout },
                INPUT_FILES_PROPERTY(files),
                { "background", "boolean", exec_background_text },
        };

        (void) snprintf(script, sizeof(script),
                        "The Python script, with a PEP 723 block if it needs packages; runs as main.py. At "
                        "most %s.",
                        size_text_bytes(s->max_code_bytes).text);
        exec_describe_timeout(s, timeout);
        input_files_describe(s, "Together", files);
        schema_write(w, properties, ELEMENTSOF(properties), /* is_closed= */ true);
}

static int write_execute_python(const ToolRegistry *registry, McpVersion version, JsonWriter *w) {
        static const char title[] = "Run Python with packages";
        /* The script changes nothing outside its sandbox, but the server fetches packages from an index that
         * others fill, and keeps them. */
        unsigned said = registry->settings->run_hints;
        const ToolHints hints = {
                .is_destructive = !(said & HINT_READ_ONLY),
                .is_open_world = !registry->settings->packages.is_offline || !(said & HINT_CLOSED_WORLD),
        };
        _cleanup_buffer_ Buffer description = BUFFER_INIT(0);
        int r;

        r = describe(registry, &description);
        if (r < 0)
                return r;
        exec_tool_write_head(w, version, tool_execute_python.name, title, description.data,
                             description.n_bytes);
        write_input_schema(w, registry->settings);
        return exec_tool_write_tail(w, version, title, &hints, /* has_pages= */ false);
}

const Tool tool_execute_python = {
        .name = "execute_python",
        .write = write_execute_python,
        .call = call_execute_python,
};
