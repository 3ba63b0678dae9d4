/* SPDX-License-Identifier: MIT */

#include "python/order.h"

#include "base/strv.h"

#define PACKAGES_OF_SET_MAX 300

static void write_list(JsonWriter *w, const char *key, char *const *l) {
        json_key(w, key);
        json_begin_array(w);
        STRV_FOREACH(s, l)
                json_string(w, *s);
        json_end_array(w);
}

static void write_string(JsonWriter *w, const char *key, const char *value) {
        json_key(w, key);
        json_string(w, value ?: "");
}

static void write_bool(JsonWriter *w, const char *key, bool value) {
        json_key(w, key);
        json_boolean(w, value);
}

static void write_number(JsonWriter *w, const char *key, uint64_t value) {
        json_key(w, key);
        json_unsigned(w, value);
}

static void write_interpreters(JsonWriter *w, const ParseOrder *o) {
        json_key(w, "interpreters");
        json_begin_array(w);
        for (size_t i = 0; i < o->hello->n_interpreters && i < INTERPRETERS_MAX; i++) {
                if (!*o->hello->interpreters[i])
                        continue;
                json_begin_object(w);
                write_number(w, "index", i);
                write_string(w, "path", o->hello->interpreters[i]);
                write_string(w, "version", o->versions ? o->versions[i] : "");
                json_end_object(w);
        }
        json_end_array(w);
}

int order_write_parse(const ParseOrder *o, Buffer *b) {
        const PackageSettings *s = &o->settings->packages;
        JsonWriter w = JSON_WRITER_INIT(b);

        assert(o && o->script && o->hello);
        assert(b);

        json_begin_object(&w);
        json_key(&w, "script");
        json_string_n(&w, o->script, o->script_bytes);
        write_list(&w, "dependencies", o->dependencies);
        if (o->lines) {
                json_key(&w, "lines");
                json_begin_array(&w);
                for (size_t i = 0; i < strv_length(o->dependencies); i++)
                        json_unsigned(&w, o->lines[i]);
                json_end_array(&w);
        }
        write_string(&w, "python_version", o->python_version);
        write_bool(&w, "check_syntax", o->wants_syntax);
        write_interpreters(&w, o);
        json_key(&w, "policy");
        json_begin_object(&w);
        write_list(&w, "allow", s->allow_packages);
        write_list(&w, "deny", s->deny_packages);
        write_bool(&w, "direct_urls", s->allow_direct_urls);
        write_bool(&w, "vcs", s->allow_vcs);
        write_bool(&w, "tool_uv", s->allow_tool_uv);
        write_bool(&w, "python_downloads", s->allow_python_downloads);
        json_end_object(&w);
        json_end_object(&w);
        return json_writer_finish(&w);
}

int order_write_versions(const WireHello *hello, const char (*known)[VERSION_CHARS_MAX + 1], Buffer *b) {
        JsonWriter w = JSON_WRITER_INIT(b);

        assert(hello && known);
        assert(b);

        json_begin_object(&w);
        json_key(&w, "interpreters");
        json_begin_array(&w);
        for (size_t i = 0; i < hello->n_interpreters && i < INTERPRETERS_MAX; i++) {
                if (!*hello->interpreters[i] || *known[i])
                        continue;
                json_begin_object(&w);
                write_number(&w, "index", i);
                write_string(&w, "path", hello->interpreters[i]);
                json_end_object(&w);
        }
        json_end_array(&w);
        write_string(&w, "uv", hello->uv);
        json_end_object(&w);
        return json_writer_finish(&w);
}

/* Files that the units know by other names than people do. */
static void write_outside(JsonWriter *w, const SetOrder *o) {
        const PackageSettings *s = &o->settings->packages;

        json_key(w, "outside");
        json_begin_object(w);
        if (o->uv_on_host && *o->uv_on_host && !streq(o->uv, o->uv_on_host))
                write_string(w, o->uv, o->uv_on_host);
        if (*s->ca_bundle)
                write_string(w, WIRE_CA_BUNDLE_PATH, s->ca_bundle);
        if (*s->index_credentials)
                write_string(w, WIRE_CREDENTIAL_NAME, s->index_credentials);
        json_end_object(w);
}

/* What both the order and the key have. */
static void write_fetch_body(JsonWriter *w, const SetOrder *o) {
        const PackageSettings *s = &o->settings->packages;

        write_list(w, "requirements", o->requirements);
        json_key(w, "tool_uv");
        json_raw(w, o->tool_uv, strlen(o->tool_uv));
        write_list(w, "deny", s->deny_packages);
        write_string(w, "index_url", s->index_url);
        write_list(w, "extra_index_urls", s->extra_index_urls);
        write_string(w, "exclude_newer", s->exclude_newer);
        write_bool(w, "allow_source_builds", s->allow_source_builds);
        write_bool(w, "allow_urls", s->allow_direct_urls);
        write_bool(w, "allow_vcs", s->allow_vcs);
}

int order_write_key(const SetOrder *o, Buffer *b) {
        JsonWriter w = JSON_WRITER_INIT(b);

        assert(o && o->tool_uv);
        assert(b);

        json_begin_object(&w);
        write_fetch_body(&w, o);
        json_end_object(&w);
        return json_writer_finish(&w);
}

int order_write_fetch(const SetOrder *o, Buffer *b) {
        const PackageSettings *s = &o->settings->packages;
        JsonWriter w = JSON_WRITER_INIT(b);

        assert(o && o->uv && o->python && o->tool_uv);
        assert(b);

        json_begin_object(&w);
        write_string(&w, "uv", o->uv);
        write_string(&w, "python", o->python);
        write_outside(&w, o);
        write_fetch_body(&w, o);
        write_string(&w, "proxy", s->proxy);
        write_list(&w, "no_proxy", s->no_proxy);
        write_list(&w, "internal_hosts", s->internal_hosts);
        write_string(&w, "ca_bundle", *s->ca_bundle ? WIRE_CA_BUNDLE_PATH : "");
        write_string(&w, "python_mirror", s->python_mirror);
        write_bool(&w, "offline", s->is_offline);
        write_list(&w, "known_locks", o->known_locks);
        write_number(&w, "budget_s", o->budget_usec / USEC_PER_SEC);
        write_number(&w, "max_packages", PACKAGES_OF_SET_MAX);
        write_number(&w, "max_wheel_bytes", s->prepare_max_bytes);
        write_number(&w, "max_total_bytes", s->prepare_max_bytes);
        json_end_object(&w);
        return json_writer_finish(&w);
}

int order_write_install(const SetOrder *o, Buffer *b) {
        JsonWriter w = JSON_WRITER_INIT(b);

        assert(o && o->uv && o->python && o->lock);
        assert(b);

        json_begin_object(&w);
        write_string(&w, "uv", o->uv);
        write_string(&w, "python", o->python);
        write_outside(&w, o);
        write_list(&w, "requirements", o->requirements);
        write_string(&w, "lock_sha256", o->lock);
        write_number(&w, "workers", 0);
        write_number(&w, "budget_s", o->budget_usec / USEC_PER_SEC);
        write_number(&w, "max_set_bytes", o->settings->packages.prepare_max_bytes);
        json_end_object(&w);
        return json_writer_finish(&w);
}
