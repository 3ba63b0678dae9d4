/* SPDX-License-Identifier: MIT */

/* Typed access, and the table-driven reader whose errors tell a caller what to change. */

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>

#include "base/utf8.h"
#include "json/json.h"

#define SAFE_INTEGER_MAX INT64_C(9007199254740992) /* 2^53: beyond it doubles skip integers */

JsonType json_type(const JsonValue *v) {
        assert(v);

        switch (v->type & 0xff) {
        case cJSON_False:
        case cJSON_True:
                return JSON_BOOL;
        case cJSON_Number:
                return JSON_NUMBER;
        case cJSON_String:
                return JSON_STRING;
        case cJSON_Array:
                return JSON_ARRAY;
        case cJSON_Object:
                return JSON_OBJECT;
        default:
                return JSON_NULL;
        }
}

const char* json_type_to_string(JsonType t) {
        static const char *const names[] = {
                [JSON_NULL] = "null",
                [JSON_BOOL] = "a boolean",
                [JSON_NUMBER] = "a number",
                [JSON_STRING] = "a string",
                [JSON_ARRAY] = "an array",
                [JSON_OBJECT] = "an object",
        };

        assert((size_t) t < ELEMENTSOF(names));
        return names[t];
}

const JsonValue* json_member(const JsonValue *v, const char *name) {
        assert(name);

        if (!v || !cJSON_IsObject(v))
                return NULL;
        return cJSON_GetObjectItemCaseSensitive(v, name);
}

static const JsonValue* child(const JsonValue *v, size_t i) {
        const JsonValue *c = v->child;

        for (; c && i > 0; i--)
                c = c->next;
        return c;
}

const JsonValue* json_element(const JsonValue *v, size_t i) {
        return v && cJSON_IsArray(v) ? child(v, i) : NULL;
}

size_t json_length(const JsonValue *v) {
        size_t n = 0;

        if (v && (cJSON_IsArray(v) || cJSON_IsObject(v)))
                for (const JsonValue *c = v->child; c; c = c->next)
                        n++;
        return n;
}

const char* json_member_name(const JsonValue *object, size_t i) {
        const JsonValue *c = object && cJSON_IsObject(object) ? child(object, i) : NULL;

        return c ? c->string : NULL;
}

bool json_get_string(const JsonValue *v, const char **ret, size_t *ret_bytes) {
        assert(ret);

        if (!v || !cJSON_IsString(v))
                return false;
        *ret = v->valuestring;
        if (ret_bytes)
                *ret_bytes = strlen(v->valuestring); /* complete: json_parse() lets no NUL through */
        return true;
}

bool json_get_integer(const JsonValue *v, int64_t *ret) {
        double d;

        assert(ret);

        if (!v || !cJSON_IsNumber(v))
                return false;
        d = v->valuedouble;
        /* The range first (it also excludes infinity): only then is the conversion defined. */
        if (!(d >= -(double) SAFE_INTEGER_MAX && d <= (double) SAFE_INTEGER_MAX))
                return false;
        if ((double) (int64_t) d < d || (double) (int64_t) d > d)
                return false;
        *ret = (int64_t) d;
        return true;
}

bool json_get_bool(const JsonValue *v, bool *ret) {
        assert(ret);

        if (!v || !cJSON_IsBool(v))
                return false;
        *ret = cJSON_IsTrue(v);
        return true;
}

/* A caller's own name in our sentence: short, one line, still UTF-8. */
static int append_name(Buffer *b, const char *name) {
        size_t n = 0, n_name = strlen(name);
        int r = 0;

        while (n < n_name && r >= 0) {
                size_t k = utf8_sequence(name + n, n_name - n);

                if (k == 0 || n + k > 64)
                        return buffer_append_str(b, "…");
                if (k == 1 && ((unsigned char) name[n] < 0x20 || name[n] == 0x7f))
                        r = buffer_append_str(b, "?");
                else
                        r = buffer_append(b, name + n, k);
                n += k;
        }
        return r;
}

static int append_path(Buffer *b, const char *path, const char *name) {
        int r;

        if (path && *path) {
                r = buffer_printf(b, "%s.", path);
                if (r < 0)
                        return r;
        }
        return append_name(b, name);
}

/* "argument "path.name" <what>". Returns -EBADMSG, or -ENOMEM. */
static int complain(const char *path, const char *name, const char *what, char **reterr_message) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r;

        r = buffer_append_str(&b, "argument \"");
        if (r >= 0)
                r = append_path(&b, path, name);
        if (r >= 0)
                r = buffer_printf(&b, "\" %s", what);
        if (r >= 0)
                r = buffer_steal(&b, reterr_message, NULL);
        return r < 0 ? r : -EBADMSG;
}

static int complain_unknown(const char *path, const char *name, const JsonField *fields, size_t n_fields,
                            char **reterr_message) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r;

        r = buffer_append_str(&b, "unknown argument \"");
        if (r >= 0)
                r = append_path(&b, path, name);
        if (r >= 0)
                r = buffer_append_str(&b, n_fields > 0 ? "\"; there are " : "\"; there are no arguments");
        for (size_t i = 0; i < n_fields && r >= 0; i++)
                r = buffer_printf(&b, "%s%s", i == 0 ? "" : i + 1 < n_fields ? ", " : " and ",
                                  fields[i].name);
        if (r >= 0)
                r = buffer_steal(&b, reterr_message, NULL);
        return r < 0 ? r : -EBADMSG;
}

static int check_type(const JsonField *f, const JsonValue *v, const char *path, char **reterr_message) {
        char what[128];
        int64_t i;

        if (json_type(v) != f->type) {
                (void) snprintf(what, sizeof(what), "must be %s, not %s",
                                f->type == JSON_NUMBER ? "an integer" : json_type_to_string(f->type),
                                json_type_to_string(json_type(v)));
                return complain(path, f->name, what, reterr_message);
        }
        if (f->type == JSON_NUMBER && !json_get_integer(v, &i)) {
                bool is_large = v->valuedouble > (double) SAFE_INTEGER_MAX ||
                                v->valuedouble < -(double) SAFE_INTEGER_MAX;

                return complain(path, f->name,
                                is_large ? "must be an integer within ±2^53"
                                         : "must be an integer, not a fraction",
                                reterr_message);
        }
        return 0;
}

int json_read_object(const JsonValue *object, const char *path, const JsonField *fields, size_t n_fields,
                     char **reterr_message) {
        int r;

        assert(object);
        assert(fields || n_fields == 0);
        assert(reterr_message);

        if (json_type(object) != JSON_OBJECT) {
                char what[64];

                (void) snprintf(what, sizeof(what), "must be an object, not %s",
                                json_type_to_string(json_type(object)));
                return complain(NULL, path && *path ? path : "arguments", what, reterr_message);
        }

        for (const JsonValue *c = object->child; c; c = c->next) {
                bool is_known = false;

                for (size_t i = 0; i < n_fields && !is_known; i++)
                        is_known = streq(fields[i].name, c->string);
                if (!is_known)
                        return complain_unknown(path, c->string, fields, n_fields, reterr_message);
        }

        for (size_t i = 0; i < n_fields; i++) {
                const JsonField *f = fields + i;
                const JsonValue *v = json_member(object, f->name);

                if (v && f->accepts_null && json_type(v) == JSON_NULL)
                        v = NULL;
                if (!v && f->is_required)
                        return complain(path, f->name, "is missing", reterr_message);
                if (v) {
                        r = check_type(f, v, path, reterr_message);
                        if (r < 0)
                                return r;
                }
                *(const JsonValue**) f->ret = v;
        }
        return 0;
}
