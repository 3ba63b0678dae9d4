/* SPDX-License-Identifier: MIT */

#include "python/answer.h"

#include <arpa/inet.h>

#include "base/parse.h"
#include "base/strv.h"

#define FINDINGS_MAX 128
#define WARNINGS_MAX 64
#define KIND_CHARS_MAX 32
#define HOSTS_MAX 64
#define HOST_CHARS_MAX 253

/* A string member that is one line. Borrowed. */
static const char* line_member(const JsonValue *object, const char *name, size_t max_bytes) {
        const char *s;
        size_t n;

        if (!json_get_string(json_member(object, name), &s, &n) || !grammar_is_line(s, n, max_bytes))
                return NULL;
        return s;
}

static bool is_array(const JsonValue *v, size_t max) {
        return v && json_type(v) == JSON_ARRAY && json_length(v) <= max;
}

static bool is_kind(const char *s) {
        return s && *s && strlen(s) <= KIND_CHARS_MAX &&
               s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-")] == 0;
}

static bool get_count(const JsonValue *v, uint64_t *ret) {
        int64_t i;

        if (!v || !json_get_integer(v, &i) || i < 0)
                return false;
        *ret = (uint64_t) i;
        return true;
}

/* ---- PARSE ---- */

Parsed* parsed_ref(Parsed *p) {
        assert(p && p->n_refs > 0);
        p->n_refs++;
        return p;
}

Parsed* parsed_unref(Parsed *p) {
        if (!p)
                return NULL;
        assert(p->n_refs > 0);
        if (--p->n_refs > 0)
                return NULL;
        free(p->findings);
        strv_free(p->kinds);
        strv_free(p->messages);
        strv_free(p->requirements);
        free(p->requires_python);
        free(p->tool_uv);
        free(p);
        return NULL;
}

static int read_finding(const JsonValue *v, Parsed *p) {
        const char *severity = line_member(v, "severity", KIND_CHARS_MAX),
                   *kind = line_member(v, "kind", KIND_CHARS_MAX),
                   *message = line_member(v, "message", ANSWER_MESSAGE_BYTES_MAX);
        PythonFinding *f = p->findings + p->n_findings;
        int r;

        if (!severity || !is_kind(kind) || !message || !*message ||
            !get_count(json_member(v, "line"), &f->line) || !get_count(json_member(v, "column"), &f->column))
                return -EBADMSG;
        if (streq(severity, "error"))
                f->severity = PYTHON_ERROR;
        else if (streq(severity, "warning"))
                f->severity = PYTHON_WARNING;
        else
                return -EBADMSG;
        p->is_valid &= f->severity != PYTHON_ERROR;

        r = strv_extend(&p->kinds, kind);
        if (r >= 0)
                r = strv_extend(&p->messages, message);
        if (r < 0)
                return r;
        f->kind = p->kinds[p->n_findings];
        f->message = p->messages[p->n_findings];
        p->n_findings++;
        return 0;
}

static int read_findings(const JsonValue *v, Parsed *p) {
        size_t n;
        int r = 0;

        if (!is_array(v, FINDINGS_MAX))
                return -EBADMSG;
        n = json_length(v);
        p->findings = calloc(n + 1, sizeof(PythonFinding));
        if (!p->findings)
                return -ENOMEM;
        p->is_valid = true;
        for (size_t i = 0; i < n && r >= 0; i++)
                r = read_finding(json_element(v, i), p);
        return r;
}

static int read_requirements(const JsonValue *v, const GrammarPolicy *policy, char ***ret) {
        _cleanup_strv_ char **l = NULL;

        if (!is_array(v, REQUIREMENTS_MAX))
                return -EBADMSG;
        for (size_t i = 0; i < json_length(v); i++) {
                const char *s;
                size_t n;
                int r;

                if (!json_get_string(json_element(v, i), &s, &n) || n != strlen(s) ||
                    !grammar_is_requirement(s, policy))
                        return -EBADMSG;
                r = strv_extend(&l, s);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(l);
        return 0;
}

static int read_versions(const JsonValue *v,
                         char ret[static INTERPRETERS_MAX][VERSION_CHARS_MAX + 1]) {
        if (!is_array(v, INTERPRETERS_MAX))
                return -EBADMSG;
        for (size_t i = 0; i < json_length(v); i++) {
                const JsonValue *e = json_element(v, i);
                const char *version = line_member(e, "version", VERSION_CHARS_MAX);
                uint64_t index;

                if (!get_count(json_member(e, "index"), &index) || index >= INTERPRETERS_MAX || !version ||
                    !grammar_is_version(version))
                        return -EBADMSG;
                memcpy(ret[index], version, strlen(version) + 1);
        }
        return 0;
}

int answer_read_versions(const JsonValue *answer, char ret[static INTERPRETERS_MAX][VERSION_CHARS_MAX + 1],
                         char ret_uv[static VERSION_CHARS_MAX + 1]) {
        const char *uv;

        assert(answer);
        assert(ret && ret_uv);

        uv = line_member(answer, "uv_version", VERSION_CHARS_MAX);
        if (!uv || (*uv && !grammar_is_version(uv)))
                return -EBADMSG;
        memcpy(ret_uv, uv, strlen(uv) + 1);
        return read_versions(json_member(answer, "interpreters"), ret);
}

/* Checked here, and written anew: it goes to FETCH. */
static int write_tool_uv(const JsonValue *v, const GrammarPolicy *policy, JsonWriter *w) {
        static const char *const words[] = { "exclude-newer", "prerelease", "resolution" };
        static const char *const lists[] = { "constraint-dependencies", "override-dependencies" };
        const JsonValue *python = v ? json_member(v, "python") : NULL;
        size_t n_known = 0;

        if (!v || json_type(v) != JSON_OBJECT)
                return -EBADMSG;
        json_begin_object(w);
        if (python) {
                const char *s = line_member(v, "python", REQUIREMENT_BYTES_MAX);

                if (!policy->allows_python_downloads || !s || !*s || !grammar_is_specifier_set(s))
                        return -EBADMSG;
                json_key(w, "python");
                json_string(w, s);
                n_known++;
        }
        for (size_t i = 0; i < ELEMENTSOF(words); i++) {
                const JsonValue *e = json_member(v, words[i]);
                const char *s;
                size_t n;

                if (!e)
                        continue;
                if (!json_get_string(e, &s, &n) || n == 0 || n > 64 ||
                    strspn(s, "abcdefghijklmnopqrstuvwxyzTZ0123456789-:.+") != n)
                        return -EBADMSG;
                json_key(w, words[i]);
                json_string(w, s);
                n_known++;
        }
        for (size_t i = 0; i < ELEMENTSOF(lists); i++) {
                const JsonValue *e = json_member(v, lists[i]);
                _cleanup_strv_ char **l = NULL;
                int r;

                if (!e)
                        continue;
                r = read_requirements(e, policy, &l);
                if (r < 0)
                        return r;
                json_key(w, lists[i]);
                json_begin_array(w);
                STRV_FOREACH(s, l)
                        json_string(w, *s);
                json_end_array(w);
                n_known++;
        }
        json_end_object(w);
        return n_known == json_length(v) ? json_writer_finish(w) : -EBADMSG;
}

static int read_tool_uv(const JsonValue *v, const GrammarPolicy *policy, char **ret) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        int r;

        r = write_tool_uv(v, policy, &w);
        return r < 0 ? r : buffer_steal(&b, ret, NULL);
}

int answer_read_parse(const JsonValue *answer, const GrammarPolicy *policy, Parsed **ret) {
        _cleanup_(parsed_unrefp) Parsed *p = NULL;
        const char *requires_python, *version;
        int64_t interpreter;
        int r;

        assert(answer);
        assert(policy);
        assert(ret);

        p = calloc(1, sizeof(Parsed));
        if (!p)
                return -ENOMEM;
        p->n_refs = 1;

        r = read_findings(json_member(answer, "findings"), p);
        if (r < 0)
                return r;
        r = read_requirements(json_member(answer, "requirements"), policy, &p->requirements);
        if (r < 0)
                return r;
        r = read_versions(json_member(answer, "interpreters"), p->versions);
        if (r < 0)
                return r;
        r = read_tool_uv(json_member(answer, "tool_uv"), policy, &p->tool_uv);
        if (r < 0)
                return r;
        p->needs_python = json_member(json_member(answer, "tool_uv"), "python");

        requires_python = line_member(answer, "requires_python", REQUIREMENT_BYTES_MAX);
        version = line_member(answer, "interpreter_version", VERSION_CHARS_MAX);
        if (!requires_python || !grammar_is_specifier_set(requires_python) || !version ||
            !json_get_integer(json_member(answer, "interpreter"), &interpreter) || interpreter < -1 ||
            interpreter >= INTERPRETERS_MAX)
                return -EBADMSG;
        p->interpreter = (int) interpreter;
        if (interpreter >= 0 ? !grammar_is_version(version) : p->is_valid || *version)
                return -EBADMSG;
        memcpy(p->interpreter_version, version, strlen(version) + 1);
        r = str_copy(&p->requires_python, requires_python);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(p);
        return 0;
}

/* ---- FETCH ---- */

int answer_read_error(const JsonValue *answer, const char **ret_kind, const char **ret_message) {
        const JsonValue *error = json_member(answer, "error");
        const char *kind, *message;

        assert(answer);
        assert(ret_kind && ret_message);

        if (!error)
                return 0;
        kind = line_member(error, "kind", KIND_CHARS_MAX);
        message = line_member(error, "message", ANSWER_MESSAGE_BYTES_MAX);
        if (!is_kind(kind) || !message || !*message)
                return -EBADMSG;
        *ret_kind = kind;
        *ret_message = message;
        return 1;
}

/* Nothing but names and addresses gets into the journal. */
static bool is_host(const char *s, size_t n) {
        return n > 0 && n <= HOST_CHARS_MAX &&
               strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:") == n;
}

static bool is_address(const char *s, size_t n) {
        unsigned char bytes[16];

        return strlen(s) == n && (inet_pton(AF_INET, s, bytes) == 1 || inet_pton(AF_INET6, s, bytes) == 1);
}

int answer_read_internal_hosts(const JsonValue *answer, Buffer *ret) {
        const JsonValue *hosts;

        assert(answer);
        assert(ret);

        hosts = json_member(json_member(answer, "error"), "internal_hosts");
        if (!is_array(hosts, HOSTS_MAX) || json_length(hosts) == 0)
                return 0;
        for (size_t i = 0; i < json_length(hosts); i++) {
                const JsonValue *entry = json_element(hosts, i);
                const char *host, *address;
                size_t n_host, n_address;
                int r;

                if (!json_get_string(json_member(entry, "host"), &host, &n_host) || !is_host(host, n_host) ||
                    !json_get_string(json_member(entry, "address"), &address, &n_address) ||
                    !is_address(address, n_address))
                        return 0;
                r = buffer_printf(ret, "%s%s", i > 0 ? ", " : "", host);
                if (r >= 0 && !streq(host, address))
                        r = buffer_printf(ret, " (%s)", address);
                if (r < 0)
                        return r;
        }
        return 1;
}

void fetched_done(Fetched *f) {
        assert(f);
        strv_free(f->warnings);
        *f = (Fetched){};
}

static int read_lines(const JsonValue *v, size_t max, size_t max_bytes, char ***ret) {
        _cleanup_strv_ char **l = NULL;

        if (!is_array(v, max))
                return -EBADMSG;
        for (size_t i = 0; i < json_length(v); i++) {
                const char *s;
                size_t n;
                int r;

                if (!json_get_string(json_element(v, i), &s, &n) || !grammar_is_line(s, n, max_bytes))
                        return -EBADMSG;
                r = strv_extend(&l, s);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(l);
        return 0;
}

static bool get_lock(const JsonValue *object, char ret[static SHA256_HEX_CHARS + 1]) {
        const char *s = line_member(object, "lock_sha256", SHA256_HEX_CHARS);

        if (!s || !is_hex(s, SHA256_HEX_CHARS))
                return false;
        memcpy(ret, s, SHA256_HEX_CHARS + 1);
        return true;
}

int answer_read_fetch(const JsonValue *answer, Fetched *ret) {
        Fetched f = {};
        int r;

        assert(answer);
        assert(ret);

        if (!get_lock(answer, f.lock) || !json_get_bool(json_member(answer, "is_known"), &f.is_known))
                return -EBADMSG;
        r = read_lines(json_member(answer, "warnings"), WARNINGS_MAX, ANSWER_MESSAGE_BYTES_MAX, &f.warnings);
        if (r < 0)
                return r;
        *ret = f;
        return 0;
}

/* ---- A set ---- */

void set_facts_done(SetFacts *f) {
        assert(f);
        strv_free(f->set.packages);
        strv_free(f->set.requirements);
        free(f->set.interpreter_version);
        free(f->python);
        *f = (SetFacts){};
}

static int read_packages(const JsonValue *v, char ***ret) {
        _cleanup_strv_ char **l = NULL;

        if (!is_array(v, PACKAGES_MAX))
                return -EBADMSG;
        for (size_t i = 0; i < json_length(v); i++) {
                const JsonValue *e = json_element(v, i);
                const char *name = line_member(e, "name", 200), *version = line_member(e, "version", 100);
                int r;

                if (!name || !*name || !version || !*version)
                        return -EBADMSG;
                r = strv_extendf(&l, "%s %s", name, version);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(l);
        return 0;
}

static int read_set(const JsonValue *v, SetFacts *f) {
        const char *python = line_member(v, "python", 255),
                   *version = line_member(v, "python_version", VERSION_CHARS_MAX), *own = version;
        uint64_t format;
        int r;

        if (!get_count(json_member(v, "version"), &format) || format != 1 || !python || !version ||
            !grammar_is_version(version) || !get_lock(v, f->lock) ||
            !get_count(json_member(v, "size_bytes"), &f->set.size_bytes) ||
            !get_count(json_member(v, "n_files"), &f->set.n_files) ||
            !get_count(json_member(v, "created_usec"), &f->set.created_usec))
                return -EBADMSG;
        f->set.has_own_interpreter = json_member(v, "own_python_version");
        if (f->set.has_own_interpreter) {
                own = line_member(v, "own_python_version", VERSION_CHARS_MAX);
                if (!own || !grammar_is_version(own))
                        return -EBADMSG;
        }
        memcpy(f->python_version, version, strlen(version) + 1);
        r = read_packages(json_member(v, "packages"), &f->set.packages);
        if (r < 0)
                return r;
        r = read_lines(json_member(v, "requirements"), REQUIREMENTS_MAX, REQUIREMENT_BYTES_MAX,
                       &f->set.requirements);
        if (r < 0)
                return r;
        r = str_copy(&f->python, python);
        return r < 0 ? r : str_copy(&f->set.interpreter_version, own);
}

int answer_read_set(const char *text, size_t n_bytes, SetFacts *ret) {
        _cleanup_(set_facts_done) SetFacts f = {};
        _cleanup_json_ JsonValue *v = NULL;
        int r;

        assert(text);
        assert(ret);

        r = json_parse(text, n_bytes, &v);
        if (r != 0)
                return r < 0 ? r : -EBADMSG;
        r = read_set(v, &f);
        if (r < 0)
                return r;
        *ret = f;
        f = (SetFacts){};
        return 0;
}

int set_name(const char *python, const char *version, const char *lock,
             char ret[static SHA256_HEX_CHARS + 1]) {
        _cleanup_free_ char *text = NULL;
        size_t n_major = strcspn(version, "."), n_minor;
        int r;

        assert(python && version && lock);

        n_minor = version[n_major] ? strspn(version + n_major + 1, "0123456789") + 1 : 0;
        r = str_printf(&text, "mcp-exec set 1\n%s\n%.*s\n%s\n", python, (int) (n_major + n_minor), version,
                       lock);
        if (r < 0)
                return r;
        sha256_hex(text, strlen(text), ret);
        return 0;
}
