/* SPDX-License-Identifier: MIT */

/* Parsing: our scanner decides, cJSON builds the tree, then every object is searched for duplicate keys. */

#include <cjson/cJSON.h>
#include <errno.h>

#include "json/json.h"
#include "json/scan.h"

static int compare_names(const void *a, const void *b) {
        return strcmp(*(const char *const*) a, *(const char *const*) b);
}

/* Sorted rather than compared pairwise: an object may have as many members as JSON_VALUES_MAX. */
static int check_members(const cJSON *object) {
        _cleanup_free_ const char **names = NULL;
        size_t n = 0;

        for (const cJSON *c = object->child; c; c = c->next)
                n++;
        if (n < 2)
                return 0;
        names = calloc(n, sizeof(*names));
        if (!names)
                return -ENOMEM;
        n = 0;
        for (const cJSON *c = object->child; c; c = c->next)
                names[n++] = c->string;
        qsort(names, n, sizeof(*names), compare_names);
        for (size_t i = 1; i < n; i++)
                if (streq(names[i - 1], names[i]))
                        return JSON_E_DUPLICATE;
        return 0;
}

/* Recursion is bounded by JSON_DEPTH_MAX, which the scanner has enforced. */
static int check_duplicates(const cJSON *v) {
        int r;

        if (cJSON_IsObject(v)) {
                r = check_members(v);
                if (r != 0)
                        return r;
        }
        if (cJSON_IsObject(v) || cJSON_IsArray(v))
                for (const cJSON *c = v->child; c; c = c->next) {
                        r = check_duplicates(c);
                        if (r != 0)
                                return r;
                }
        return 0;
}

int json_check(const char *text, size_t n_bytes) {
        JsonScanner s = { .text = text, .n_bytes = n_bytes };
        int r;

        r = json_scan(&s);
        if (r != 0)
                return r;
        return s.has_unfit_text ? JSON_E_TEXT : 0;
}

int json_parse(const char *text, size_t n_bytes, JsonValue **ret) {
        _cleanup_json_ JsonValue *v = NULL;
        _cleanup_free_ char *patched = NULL;
        int r, verdict;

        assert(text || n_bytes == 0);
        assert(ret);

        verdict = json_check(text, n_bytes);
        if (verdict != 0 && verdict != JSON_E_TEXT)
                return verdict;
        if (verdict == JSON_E_TEXT) {
                JsonScanner s = { .text = text, .n_bytes = n_bytes };

                patched = malloc(n_bytes);
                if (!patched)
                        return -ENOMEM;
                memcpy(patched, text, n_bytes);
                s.patch = patched;
                (void) json_scan(&s); /* the verdict is known */
                text = patched;
        }

        v = cJSON_ParseWithLength(text, n_bytes);
        if (!v)
                return -ENOMEM; /* the scanner let nothing else through */
        r = check_duplicates(v);
        if (r != 0)
                return r;
        *ret = TAKE_PTR(v);
        return verdict;
}

JsonValue* json_free(JsonValue *v) {
        cJSON_Delete(v);
        return NULL;
}

const char* json_error_to_string(int code) {
        switch (code) {
        case JSON_E_SYNTAX:
                return "not valid JSON in UTF-8";
        case JSON_E_DEPTH:
                return "JSON nested deeper than 64 levels";
        case JSON_E_SIZE:
                return "JSON too large: at most 16 MiB, 65536 values and 62 characters in a number";
        case JSON_E_TEXT:
                return "a string contains \\u0000 or half of a surrogate pair, which cannot be kept";
        case JSON_E_DUPLICATE:
                return "one JSON object has a key twice";
        default:
                return "JSON cannot be processed";
        }
}
