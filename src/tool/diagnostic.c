/* SPDX-License-Identifier: MIT */

/* The names, schemas and answers are the conformance suite's. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "tool/diagnostic.h"

#define NO_ARGUMENTS "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}"

/* A red point. */
#define PNG \
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
/* A header and two samples of silence. */
#define WAV "UklGRigAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQQAAAAAAAAA"

#define TEXT(words) "{\"type\":\"text\",\"text\":\"" words "\"}"
#define IMAGE "{\"type\":\"image\",\"data\":\"" PNG "\",\"mimeType\":\"image/png\"}"

typedef struct Diagnostic {
        const char *name, *description;
        const char *schema;     /* raw JSON */
        const char *content;    /* raw JSON: the answer; NULL: code is run */
        const char *code;       /* Python */
        const char *parameter;  /* integer argument that is given to the code as _, or NULL */
        const char *capability; /* that a client must declare */
        const char *header;     /* Mcp-Param-… that repeats the argument "value" */
        bool is_error, is_task, is_greeting, reports_progress;
} Diagnostic;

static const Diagnostic diagnostics[] = {
        { "test_simple_text", "Answers with text", NO_ARGUMENTS,
          "[" TEXT("This is a simple text response for testing.") "]" },
        { "test_image_content", "Answers with an image", NO_ARGUMENTS, "[" IMAGE "]" },
        { "test_audio_content", "Answers with a sound", NO_ARGUMENTS,
          "[{\"type\":\"audio\",\"data\":\"" WAV "\",\"mimeType\":\"audio/wav\"}]" },
        { "test_embedded_resource", "Answers with a resource", NO_ARGUMENTS,
          "[{\"type\":\"resource\",\"resource\":{\"uri\":\"test://embedded-resource\","
          "\"mimeType\":\"text/plain\",\"text\":\"This is an embedded resource content.\"}}]" },
        { "test_multiple_content_types", "Answers with text, an image and a resource", NO_ARGUMENTS,
          "[" TEXT("Multiple content types test:") "," IMAGE
          ",{\"type\":\"resource\",\"resource\":{\"uri\":\"test://mixed-content-resource\","
          "\"mimeType\":\"application/json\","
          "\"text\":\"{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}\"}}]" },
        { "test_error_handling", "Fails", NO_ARGUMENTS,
          "[" TEXT("This tool intentionally returns an error for testing") "]", .is_error = true },
        { "test_tool_with_progress", "Reports progress three times", NO_ARGUMENTS, "[" TEXT("done") "]",
          .reports_progress = true },
        { "test_missing_capability", "Needs the client's sampling", NO_ARGUMENTS, "[" TEXT("declared") "]",
          .capability = "sampling" },
        { "test_streaming_elicitation", "Asks nothing, although it might", NO_ARGUMENTS,
          "[" TEXT("nothing to ask") "]", .reports_progress = true },
        { "test_logging_tool", "Logs nothing to the client", NO_ARGUMENTS, "[" TEXT("nothing logged") "]" },
        { "json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features",
          "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\","
          "\"$defs\":{\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":"
          "{\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},"
          "\"properties\":{\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"},"
          "\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},"
          "\"phone\":{\"type\":\"string\"},\"email\":{\"type\":\"string\"}},"
          "\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],"
          "\"if\":{\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},"
          "\"required\":[\"contactMethod\"]},"
          "\"then\":{\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]},"
          "\"additionalProperties\":false}",
          "[" TEXT("kept") "]" },
        { "routed_value", "Has an argument that a header repeats",
          "{\"type\":\"object\",\"properties\":{\"value\":{\"type\":\"string\","
          "\"x-mcp-header\":\"Value\"}}}",
          "[" TEXT("as in the header") "]", .header = "Value" },
        { "greet", "Says hello, never as a task",
          "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}}}",
          .is_greeting = true },
        { "slow_compute", "Sleeps, as a task",
          "{\"type\":\"object\",\"properties\":{\"seconds\":{\"type\":\"integer\"},"
          "\"label\":{\"type\":\"string\"}}}",
          .code = "import time\ntime.sleep(_)\nprint('slept for', _)\n", .parameter = "seconds",
          .is_task = true },
        { "failing_job", "Fails after a second, as a task", NO_ARGUMENTS,
          .code = "import time\ntime.sleep(1)\nraise SystemExit('failed, as it should')\n",
          .is_task = true },
};

static const Diagnostic* find(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(diagnostics); i++)
                if (streq(diagnostics[i].name, name))
                        return diagnostics + i;
        return NULL;
}

bool diagnostic_exists(const char *name) {
        return find(name);
}

const char* diagnostic_required_capability(void *userdata, const char *name) {
        const Diagnostic *d = find(name);

        (void) userdata;
        return d ? d->capability : NULL;
}

const char* diagnostic_routing_header(void *userdata, const char *name, const char **ret_argument) {
        const Diagnostic *d = find(name);

        (void) userdata;
        *ret_argument = "value";
        return d ? d->header : NULL;
}

int diagnostic_list(const ToolRegistry *registry, McpVersion version, JsonWriter *w) {
        (void) registry;
        (void) version;
        for (size_t i = 0; i < ELEMENTSOF(diagnostics); i++) {
                const Diagnostic *d = diagnostics + i;

                json_begin_object(w);
                json_key(w, "name");
                json_string(w, d->name);
                json_key(w, "description");
                json_string(w, d->description);
                json_key(w, "inputSchema");
                json_raw(w, d->schema, strlen(d->schema));
                json_end_object(w);
        }
        return 0;
}

/* As if the client had called exec, so that these are real runs and real tasks. */
static int run_code(ToolRegistry *registry, const Diagnostic *d, const JsonValue *arguments, McpCall *call) {
        _cleanup_buffer_ Buffer text = BUFFER_INIT(0), code = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&text);
        _cleanup_json_ JsonValue *exec_arguments = NULL;
        int64_t n = 0;
        int r;

        if (d->parameter)
                (void) json_get_integer(json_member(arguments, d->parameter), &n);
        r = buffer_printf(&code, "_ = %" PRIi64 "\n%s", n, d->code);
        if (r < 0)
                return r;
        json_begin_object(&w);
        json_key(&w, "code");
        json_string_n(&w, code.data, code.n_bytes);
        json_key(&w, "timeout_s");
        json_integer(&w, 70);
        if (d->is_task && mcp_call_takes_task(call) && (!d->parameter || n > 0)) {
                json_key(&w, "background");
                json_boolean(&w, true);
        }
        json_end_object(&w);
        r = json_writer_finish(&w);
        if (r < 0)
                return r;
        r = json_parse(text.data, text.n_bytes, &exec_arguments);
        return r < 0 ? r : tool_exec.call(registry, exec_arguments, call);
}

static int greet(const JsonValue *arguments, McpCall *call) {
        _cleanup_buffer_ Buffer words = BUFFER_INIT(0), content = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&content);
        const char *name = "whoever you are";
        int r;

        (void) json_get_string(json_member(arguments, "name"), &name, NULL);
        r = buffer_printf(&words, "Hello, %s!", name);
        if (r < 0)
                return r;
        json_begin_array(&w);
        json_begin_object(&w);
        json_key(&w, "type");
        json_string(&w, "text");
        json_key(&w, "text");
        json_string_n(&w, words.data, words.n_bytes);
        json_end_object(&w);
        json_end_array(&w);
        r = json_writer_finish(&w);
        if (r < 0)
                return r;
        mcp_call_finish(call, content.data, NULL, /* is_error= */ false);
        return 0;
}

int diagnostic_call(ToolRegistry *registry, const char *name, const JsonValue *arguments, McpCall *call) {
        const Diagnostic *d = find(name);
        int r;

        assert(d);
        if (d->is_greeting)
                return greet(arguments, call);
        if (d->code)
                return run_code(registry, d, arguments, call);
        for (uint64_t percent = 0; d->reports_progress && percent <= 100; percent += 50) {
                r = mcp_call_progress(call, percent * USEC_PER_SEC, NULL);
                if (r < 0)
                        return r;
        }
        mcp_call_finish(call, d->content, NULL, d->is_error);
        return 0;
}
